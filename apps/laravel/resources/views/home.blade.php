@extends('layout')

@section('title', 'Home')

@section('content')
  <h1>Welcome {{ $visits > 1 ? 'back' : '' }}</h1>
  <p>You made {{ $visits }} {{ Str::plural('visit', $visits) }} in this session; visits are kept in it.</p>
  @if ($previous)
    <p>Someone was here at <time>{{ $previous }}</time>.</p>
  @endif
  <ul>
    @forelse ($categories as $category)
      @include('partials.category', $category)
    @empty
      <li>Nothing yet.</li>
    @endforelse
  </ul>
  <form method="post" action="/search">
    @csrf
    <input type="search" name="q" value="{{ old('q') }}">
  </form>
@endsection
