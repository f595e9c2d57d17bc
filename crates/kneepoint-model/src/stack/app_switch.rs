//! What an application's own settings switch on or off at a cost.

use super::Setting;
use super::change::Change;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a switch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchKind {
    /// A cache of the application keeps nothing.
    CacheOff,
    /// The application writes down what it does, or checks it, for its developers.
    DebugOn,
}

/// What a deployment prepares once, and requests do themselves where it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unprepared {
    /// Laravel has no cache of its configuration: `php artisan config:cache`.
    LaravelConfiguration,
    /// Composer has no map of the application's classes: `composer dump-autoload --optimize`.
    ComposerClasses,
    /// Symfony has no compiled file of its environment: `composer dump-env prod`.
    SymfonyEnvironment,
    /// WordPress has no drop-in that keeps what it read for other requests.
    WordpressObjectCache,
}

/// A setting of the application itself that costs every request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppSwitch {
    /// What it does.
    pub kind: SwitchKind,
    /// Its name as it is written: `$wgMainCacheType`.
    pub name: String,
    /// Its value as it is written, where that is a word of the switch; else that it is not shown.
    pub value: String,
    /// The file, relative to the application's root.
    pub file: String,
    /// The line in it, from 1.
    pub line: u32,
    /// That line as it stands with the switch at what is right for visitors; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

impl AppSwitch {
    /// The change that sets it right; `None` where nobody knows how.
    #[must_use]
    pub fn change(&self) -> Option<Setting> {
        let (file, line) = (self.file.as_str(), self.line as usize);
        Some(Change::Line { file, line }.to(self.instead.clone()?))
    }
}

impl fmt::Display for AppSwitch {
    /// `$wgMainCacheType = CACHE_NONE (LocalSettings.php:12)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} = {} ({}:{})",
            self.name, self.value, self.file, self.line
        )
    }
}
