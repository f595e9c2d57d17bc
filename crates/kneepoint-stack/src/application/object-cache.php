<?php
/*
 * A small object cache of WordPress in Redis, with which Kneepoint measures what one is worth. Visitors deserve a plugin that
 * is looked after, such as Redis Object Cache.
 *
 * The functions are those of https://developer.wordpress.org/reference/classes/wp_object_cache/; what is missing of them,
 * WordPress makes of these (wp-includes/cache-compat.php). Without Redis everything is kept for the request only.
 */

class WP_Object_Cache
{
    private $redis = null;
    private $known = []; // what this request knows already
    private $shared = []; // groups that all sites of a network share
    private $passing = []; // groups that end with the request
    private $prefix;
    private $site = '';

    public function __construct()
    {
        $salt = defined('WP_CACHE_KEY_SALT') ? WP_CACHE_KEY_SALT : '';
        $this->prefix = 'wp:' . $salt . ($GLOBALS['table_prefix'] ?? '') . ':';
        $this->switch_to_blog(function_exists('get_current_blog_id') ? get_current_blog_id() : 1);
        $host = getenv('REDIS_HOST');
        try {
            $redis = $host !== false && class_exists('Redis') ? new Redis() : null;
            if ($redis && @$redis->pconnect($host, (int) getenv('REDIS_PORT'), 1.0)) {
                $redis->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
                $this->redis = $redis;
            }
        } catch (RedisException $away) {
            // This request does without.
        }
    }

    public function get($key, $group = 'default', $force = false, &$found = null)
    {
        $id = $this->id($key, $group);
        if ($force || !array_key_exists($id, $this->known)) {
            $this->fetch([$id], $group);
        }
        return $this->value($id, $found);
    }

    public function get_multiple($keys, $group = 'default', $force = false)
    {
        $ids = $unknown = $values = [];
        foreach ($keys as $key) {
            $ids[$key] = $this->id($key, $group);
            if ($force || !array_key_exists($ids[$key], $this->known)) {
                $unknown[] = $ids[$key];
            }
        }
        $this->fetch($unknown, $group);
        foreach ($ids as $key => $id) {
            $values[$key] = $this->value($id);
        }
        return $values;
    }

    /** Keeps a value; with `nx` only a new one, with `xx` only in the place of another. */
    public function keep($key, $data, $group, $expire, $only = '')
    {
        $id = $this->id($key, $group);
        $data = is_object($data) ? clone $data : $data;
        $done = true;
        if ($this->persists($group)) {
            $options = array_merge($only === '' ? [] : [$only], (int) $expire > 0 ? ['ex' => (int) $expire] : []);
            $done = $this->ask('set', $id, is_int($data) ? (string) $data : serialize($data), $options);
        }
        $is_kept_there = $this->persists($group);
        $fits = $only === '' || ($is_kept_there ? $done : array_key_exists($id, $this->known) === ($only === 'xx'));
        if ($fits) {
            $this->known[$id] = $data;
        }
        return $fits && ($done || !$is_kept_there);
    }

    public function delete($key, $group = 'default')
    {
        $id = $this->id($key, $group);
        $was_known = array_key_exists($id, $this->known);
        unset($this->known[$id]);
        $gone = $this->persists($group) ? (int) $this->ask('del', $id) : 0;
        return $was_known || $gone > 0;
    }

    /** Adds to a number; what is none counts as 0, and nothing becomes less than that. */
    public function add_to($key, $offset, $group)
    {
        $data = $this->get($key, $group, true, $found);
        if (!$found) {
            return false;
        }
        $id = $this->id($key, $group);
        $sum = is_int($data) && $this->persists($group) ? $this->ask('incrBy', $id, $offset) : false;
        if (is_int($sum) && $sum >= 0) {
            return $this->known[$id] = $sum;
        }
        $sum = max(0, (is_numeric($data) ? (int) $data : 0) + $offset);
        $this->keep($key, $sum, $group, max(0, (int) $this->ask('ttl', $id)));
        return $sum;
    }

    /** Forgets what is WordPress' own: others may keep something in the same Redis. */
    public function flush()
    {
        $this->known = [];
        $cursor = null;
        try {
            $own = addcslashes($this->prefix, '*?[]\\') . '*';
            while ($this->redis && ($ids = $this->redis->scan($cursor, $own, 1000))) {
                $this->redis->del($ids);
            }
        } catch (RedisException $away) {
            $this->redis = null;
        }
        return true;
    }

    public function add_global_groups($groups)
    {
        $this->shared += array_fill_keys((array) $groups, true);
    }

    public function add_non_persistent_groups($groups)
    {
        $this->passing += array_fill_keys((array) $groups, true);
    }

    public function switch_to_blog($site)
    {
        $this->site = function_exists('is_multisite') && is_multisite() ? (int) $site . ':' : '';
    }

    private function id($key, $group)
    {
        $group = $group ?: 'default';
        return $this->prefix . (isset($this->shared[$group]) ? '' : $this->site) . $group . ':' . $key;
    }

    private function persists($group)
    {
        return $this->redis && !isset($this->passing[$group ?: 'default']);
    }

    private function fetch(array $ids, $group)
    {
        $texts = $ids && $this->persists($group) ? $this->ask('mget', $ids) : false;
        foreach ($texts ?: [] as $at => $text) {
            if ($text === false) {
                unset($this->known[$ids[$at]]);
            } else {
                $this->known[$ids[$at]] = (string) (int) $text === $text ? (int) $text : unserialize($text);
            }
        }
    }

    private function value($id, &$found = null)
    {
        $found = array_key_exists($id, $this->known);
        $data = $found ? $this->known[$id] : false;
        return is_object($data) ? clone $data : $data;
    }

    /** Asks Redis. False where it is away; from then on it is not asked again. */
    private function ask($command, ...$arguments)
    {
        try {
            return $this->redis ? $this->redis->$command(...$arguments) : false;
        } catch (RedisException $away) {
            $this->redis = null;
            return false;
        }
    }
}

// They only pass on what they are given.
function kneepoint_object_cache() { return $GLOBALS['wp_object_cache']; }
function wp_cache_init() { $GLOBALS['wp_object_cache'] = new WP_Object_Cache(); }
function wp_cache_close() { return true; }
function wp_cache_get($key, $group = '', $force = false, &$found = null)
{
    return kneepoint_object_cache()->get($key, $group, $force, $found);
}
function wp_cache_get_multiple($keys, $group = '', $force = false)
{
    return kneepoint_object_cache()->get_multiple($keys, $group, $force);
}
function wp_cache_set($key, $data, $group = '', $expire = 0)
{
    return kneepoint_object_cache()->keep($key, $data, $group, $expire);
}
function wp_cache_add($key, $data, $group = '', $expire = 0)
{
    $is_suspended = function_exists('wp_suspend_cache_addition') && wp_suspend_cache_addition();
    return !$is_suspended && kneepoint_object_cache()->keep($key, $data, $group, $expire, 'nx');
}
function wp_cache_replace($key, $data, $group = '', $expire = 0)
{
    return kneepoint_object_cache()->keep($key, $data, $group, $expire, 'xx');
}
function wp_cache_delete($key, $group = '') { return kneepoint_object_cache()->delete($key, $group); }
function wp_cache_incr($key, $offset = 1, $group = '') { return kneepoint_object_cache()->add_to($key, (int) $offset, $group); }
function wp_cache_decr($key, $offset = 1, $group = '') { return kneepoint_object_cache()->add_to($key, -(int) $offset, $group); }
function wp_cache_flush() { return kneepoint_object_cache()->flush(); }
function wp_cache_add_global_groups($groups) { kneepoint_object_cache()->add_global_groups($groups); }
function wp_cache_add_non_persistent_groups($groups) { kneepoint_object_cache()->add_non_persistent_groups($groups); }
function wp_cache_switch_to_blog($site) { kneepoint_object_cache()->switch_to_blog($site); }
