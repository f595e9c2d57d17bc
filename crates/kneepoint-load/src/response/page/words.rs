//! Words of error pages, and how they stand there.

/// How words stand on a page that is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// They are all there is.
    Alone,
    /// They are the title or the first text of any page, or begin it on a short page.
    Opens,
    /// The same, or any text of a short page begins with them.
    Begins,
    /// The title of any page begins with them.
    TitleBegins,
    /// The title of any page ends with them.
    TitleEnds,
    /// They stand anywhere on a very short page.
    Within,
    /// They stand anywhere in the only sentence of a page that has no title and leads nowhere.
    Bare,
    /// A page that has no title and leads nowhere begins with them, however much follows: a trace does.
    Leads,
    /// They are the whole title of a short page.
    Title,
}

/// Words of error pages. Letter case is ignored.
pub(super) struct Known {
    /// Whose error pages have them.
    pub(super) of: &'static str,
    /// How they stand there.
    pub(super) place: Place,
    /// The words.
    pub(super) words: &'static [&'static str],
}

const fn known(of: &'static str, place: Place, words: &'static [&'static str]) -> Known {
    Known { of, place, words }
}

/// The words as each application's own source has them.
pub(super) static KNOWN: &[Known] = &[
    known(
        "Roundcube",
        Place::Begins,
        &[
            "DATABASE ERROR: CONNECTION FAILED",
            "CONFIGURATION ERROR",
            "SERVICE CURRENTLY NOT AVAILABLE",
            "Roundcube Webmail Installer",
        ],
    ),
    known(
        "WordPress",
        Place::Begins,
        &[
            "Error establishing a database connection",
            "There has been a critical error on",
            "Database Error",
            "Briefly unavailable for scheduled maintenance",
            "Your PHP installation appears to be missing the MySQL extension",
            "There doesn't seem to be a wp-config.php file",
            "Error establishing a Redis connection",
        ],
    ),
    known(
        "WooCommerce",
        Place::Begins,
        &["Pardon our dust! We're working on something amazing"],
    ),
    known(
        "WordPress",
        Place::TitleBegins,
        &[
            "WordPress \u{203a} Installation",
            "WordPress \u{203a} Setup",
            "WordPress \u{203a} Error",
        ],
    ),
    known(
        "MediaWiki",
        Place::Begins,
        &[
            "MediaWiki internal error",
            "Sorry! This site is experiencing technical difficulties",
            "LocalSettings.php not found",
            "Cannot access the database",
            "(Cannot access the database",
        ],
    ),
    known(
        "MediaWiki",
        Place::Within,
        &["LocalSettings.php not found", "Cannot access the database"],
    ),
    known(
        "DokuWiki",
        Place::Begins,
        &["DokuWiki Setup Error", "DokuWiki Installer"],
    ),
    known(
        "Laravel",
        Place::Begins,
        &[
            "Whoops, something went wrong",
            "Whoops! There was an error",
            "No application encryption key has been specified",
        ],
    ),
    known(
        "Symfony",
        Place::Begins,
        &[
            "Whoops, looks like something went wrong",
            "Oops! An Error Occurred",
            "An Error Occurred: ",
        ],
    ),
    known(
        "Symfony",
        Place::TitleEnds,
        &["(500 Internal Server Error)", "(503 Service Unavailable)"],
    ),
    known(
        "Drupal",
        Place::Begins,
        &[
            "The website encountered an unexpected error",
            "Site under maintenance",
            "The provided host name is not valid for this server",
        ],
    ),
    known(
        "Drupal",
        Place::Within,
        &["is currently under maintenance. We should be back shortly"],
    ),
    known("Drupal", Place::TitleEnds, &["| Drupal installation"]),
    known(
        "FreshRSS",
        Place::TitleBegins,
        &["Installation \u{b7} FreshRSS"],
    ),
    known(
        "Joomla",
        Place::Begins,
        &[
            "Error displaying the error page",
            "No configuration file found and no installation code available",
            "Joomla! Web Installer",
        ],
    ),
    known(
        "phpMyAdmin",
        Place::Begins,
        &[
            "Cannot connect: invalid settings",
            "phpMyAdmin - Error",
            "The mysqli extension is missing",
        ],
    ),
    known(
        "Slim",
        Place::Begins,
        &["Slim Application Error", "A website error has occurred"],
    ),
    known(
        "CodeIgniter",
        Place::Begins,
        &[
            "A Database Error Occurred",
            "A PHP Error was encountered",
            "An uncaught Exception was encountered",
            "Your application folder path does not appear to be set correctly",
        ],
    ),
    known(
        "Nextcloud",
        Place::Begins,
        &["Access through untrusted domain"],
    ),
    known(
        "TYPO3",
        Place::Begins,
        &[
            "Oops, an error occurred!",
            "The current host header value does not match the configured trusted hosts pattern",
        ],
    ),
    known(
        "Matomo",
        Place::Begins,
        &["Warning: You are now accessing Matomo from"],
    ),
    known(
        "Moodle",
        Place::Begins,
        &[
            "Error: Database connection failed",
            "Coding error detected, it must be fixed",
            "Incorrect access detected, this server may be accessed only through",
        ],
    ),
    known(
        "Magento",
        Place::Begins,
        &["There has been an error processing your request"],
    ),
    known(
        "PHP-FPM",
        Place::Alone,
        &["File not found.", "Access denied."],
    ),
    known("PHP", Place::Alone, &["No input file specified."]),
    known(
        "a web server",
        Place::Opens,
        &[
            "400 Bad Request",
            "403 Forbidden",
            "404 Not Found",
            "500 Internal Server Error",
            "502 Bad Gateway",
            "503 Service Temporarily Unavailable",
            "503 Service Unavailable",
            "504 Gateway Time-out",
            "404 page not found",
        ],
    ),
    known(
        "a web server that knows no application",
        Place::Opens,
        &["Welcome to nginx!"],
    ),
    known(
        "a web server that knows no application",
        Place::TitleBegins,
        &[
            "Index of /",
            "Apache2 Debian Default Page",
            "Apache2 Ubuntu Default Page",
        ],
    ),
    known(
        "an application",
        Place::Opens,
        &["Internal Server Error", "Service Unavailable", "SQLSTATE["],
    ),
    known(
        "an application",
        Place::Within,
        &[
            "could not connect to database",
            "could not connect to the database",
            "could not connect to mysql",
            "cannot connect to database",
            "cannot connect to the database",
            "can't connect to mysql server",
            "unable to connect to database",
            "unable to connect to the database",
            "unable to connect to your database",
            "failed to connect to database",
            "failed to connect to the database",
            "database connection failed",
            "database connection error",
            "error connecting to database",
            "SQLSTATE[",
            "access denied for user",
            "must be writable",
            "must be writeable",
            "is not writable",
            "is not writeable",
            "isn't writable",
            "not accessible or writable",
            "failed to open stream",
            "extension is required",
            "extension is missing",
            "extension is not installed",
            "extension is not loaded",
            "untrusted host",
            "not a trusted host",
            "dependencies have not been set up",
            "dependencies are not installed",
        ],
    ),
    known("an application", Place::Opens, &["Internal Error"]),
    known(
        "an application",
        Place::Title,
        &[
            "Error",
            "Error!",
            "Fatal error",
            "Application error",
            "System error",
            "Server error",
            "Unexpected error",
            "An error occurred",
            "Exception",
        ],
    ),
    // What handlers of exceptions print in development.
    known(
        "an application",
        Place::Leads,
        &[
            "Error:",
            "Exception:",
            "Uncaught ",
            "Unhandled exception",
            "Fatal error:",
        ],
    ),
    // What a script says that ends itself: `die("...")`.
    known(
        "an application",
        Place::Bare,
        &[
            "error:",
            "is required",
            "are required",
            "is missing",
            "not found",
            "cannot ",
            "can't ",
            "could not ",
            "unable to ",
            "failed",
            "not installed",
            "not configured",
            "not allowed",
            "denied",
            "must be ",
            "you need ",
            "please run",
            "please install",
            "composer install",
        ],
    ),
];
