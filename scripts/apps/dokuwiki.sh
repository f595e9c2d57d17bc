# DokuWiki with twenty pages as text files; it needs no database.
need php
need_extension xml
unpack dokuwiki libphp-simplepie php-geshi php-phpseclib libjs-jquery libjs-jquery-cookie libjs-jquery-ui
base=$root/usr/share/dokuwiki
rm -rf "$root/var/lib/dokuwiki/inc" "$base/.htaccess"
take "$base" "$app"
take "$root/etc/dokuwiki" "$app/conf"
cp -a "$root/var/lib/dokuwiki/data" "$app/data"
chown -R "$(id -u):$(id -g)" "$app/data"
chmod -R u=rwX,go=rX "$app/data"
mkdir -p "$app/data"/{attic,cache,index,locks,media,media_attic,media_meta,meta,pages,tmp}
# What Debian keeps elsewhere, back where upstream has it: its own directories instead of /etc and /usr/share.
rm "$app/inc/preload.php"
rm -f "$app/install.php"
sed -i "s|'/var/lib/dokuwiki/data'|'./data'|" "$app/conf/dokuwiki.php"
mkdir "$app/vendor/debian"
cp -aL "$root/usr/share/php-geshi" "$app/vendor/debian/geshi"
cp -aL "$root/usr/share/php/simplepie" "$app/vendor/debian/simplepie"
[ -d "$app/vendor/phpseclib" ] || cp -aL "$root/usr/share/php/phpseclib" "$app/vendor/debian/phpseclib"
cp -aL "$root/usr/share/javascript" "$app/vendor/debian/javascript"
grep -rlE "'/usr/share/(php|javascript)" --include='*.php' "$app" | while IFS= read -r file; do
    depth=$(realpath --relative-to="$(dirname "$file")" "$app/vendor/debian")
    sed -i -e "s|'/usr/share/php-geshi|__DIR__ . '/$depth/geshi|g" -e "s|'/usr/share/php/|__DIR__ . '/$depth/|g" \
        -e "s|'/usr/share/javascript|__DIR__ . '/$depth/javascript|g" "$file"
done
cat >"$app/conf/local.php" <<'PHP'
<?php
$conf['title'] = 'The Harbour Notes';
$conf['lang'] = 'en';
$conf['license'] = 'cc-by-sa';
$conf['useacl'] = 1;
$conf['superuser'] = '@admin';
$conf['userewrite'] = 0;
PHP
printf '*\t@ALL\t8\n' >"$app/conf/acl.auth.php"
# A user with a password that nobody knows: the hash of nothing in particular.
printf '# <?php exit()?>\nkeeper:$2y$10$kneepointkneepointkneeOkneepointkneepointkneepointkneep:Keeper:keeper@example.org:admin\n' \
    >"$app/conf/users.auth.php"
php "$here/dokuwiki.php" "$app/data/pages"
