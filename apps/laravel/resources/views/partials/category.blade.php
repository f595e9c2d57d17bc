<li><a href="{{ url('category/' . Str::slug($name)) }}">{{ $name }}</a> <small>{{ $videos }}</small></li>
