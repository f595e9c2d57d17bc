# MediaWiki with its own installer, some twenty pages, and MariaDB.
need php
need_extension mysqli intl mbstring xml
unpack mediawiki mediawiki-classes
base=$root/usr/share/mediawiki
rm -rf "$base"/{extensions,config,images,LocalSettings.php}
take "$base" "$app"
# As the tarball has them: extensions where they belong, directories for files that people send.
mv "$app/extensions-core" "$app/extensions"
mkdir -p "$app/images" "$app/cache"
rm -rf "$app/mw-config/overrides"

start_database
php "$app/maintenance/install.php" --dbtype=mysql --dbserver="localhost:$socket" --dbname=wiki --dbuser=root --dbpass= \
    --server=http://wiki.example.org --scriptpath= --lang=en --pass=not-a-secret-of-anyone --skins=Vector,MonoBook \
    'The Harbour Wiki' Editor >"$scratch/content.log" 2>&1 \
    || fail "MediaWiki cannot be installed: $(tail -n 5 "$scratch/content.log")"
cat >>"$app/LocalSettings.php" <<'PHP'

wfLoadExtension( 'ParserFunctions' );
wfLoadExtension( 'Cite' );
$wgMainCacheType = CACHE_DB;
$wgMessageCacheType = CACHE_DB;
$wgParserCacheType = CACHE_DB;
$wgSessionCacheType = CACHE_DB;
$wgCacheDirectory = "$IP/cache";
$wgJobRunRate = 0; // A timer of the host runs maintenance/runJobs.php.
$wgUseInstantCommons = false;
$wgPingback = false;
PHP
mkdir "$scratch/pages"
php "$here/mediawiki.php" "$scratch/pages"
php "$app/maintenance/importTextFiles.php" --user=Editor --overwrite "$scratch"/pages/*.txt >>"$scratch/content.log" 2>&1 \
    || fail "MediaWiki's pages cannot be imported: $(tail -n 5 "$scratch/content.log")"
php "$app/maintenance/runJobs.php" >>"$scratch/content.log" 2>&1 || true
php "$app/maintenance/rebuildrecentchanges.php" >>"$scratch/content.log" 2>&1 || true
dump wiki "$app/wiki.sql"
rm -rf "${app:?}/cache/"*
sed -i -e 's|^\$wgDBserver = .*|$wgDBserver = "db.internal.example";|' -e 's|^\$wgDBuser = .*|$wgDBuser = "wiki_live";|' \
    -e 's|^\$wgDBpassword = .*|$wgDBpassword = "k3-not-a-secret";|' "$app/LocalSettings.php"
