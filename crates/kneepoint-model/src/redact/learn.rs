//! Which values of a scenario are secret, wherever they show up again.

use super::names::{
    is_cookie, is_harmless_field, is_harmless_header, is_harmless_variable, is_secret_name,
};
use super::{HIDDEN, Secrets, scan};
use crate::{Body, PartContent, Request, Scenario, Stack};

/// Shortest secret that is searched for in free text: shorter ones are ordinary words too often.
const SHORTEST_SEARCHED: usize = 6;
/// From so many characters on, letters and digits together are taken for a key and not for a setting.
const SHORTEST_MADE_UP: usize = 16;

impl Secrets {
    /// Longest first, each once.
    pub(super) fn settle(&mut self) {
        self.values
            .sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        self.values.dedup();
    }

    pub(super) fn learn_scenario(&mut self, scenario: &Scenario) {
        for setting in &scenario.app_settings {
            if is_secret_name(&setting.env) {
                self.app_settings.push(setting.name.clone());
                let values = setting.values.iter();
                values.for_each(|value| self.remember(value, true));
            } else {
                self.declared.push(setting.env.clone());
            }
        }
        for (name, value) in &scenario.env {
            let harmless = is_harmless_variable(name) || self.declared.contains(name);
            self.learn(harmless, name, value);
        }
        for (name, value) in scenario.tiers.iter().flat_map(|tier| &tier.settings) {
            self.learn(true, name, value);
        }
        let requests = scenario.workload.requests.iter();
        requests.for_each(|request| self.learn_request(request));
    }

    pub(super) fn learn_dotenv(&mut self, text: &str) {
        for line in text.lines() {
            let line = line.trim();
            let line = line.strip_prefix("export ").unwrap_or(line);
            if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
                let value = value.trim().trim_matches(['"', '\'']);
                let made_up = value.len() >= SHORTEST_MADE_UP
                    && value.bytes().any(|b| b.is_ascii_digit())
                    && value.bytes().any(|b| b.is_ascii_alphabetic());
                let name = name.trim();
                self.learn(is_harmless_variable(name) || !made_up, name, value);
            }
        }
    }

    pub(super) fn learn_stack(&mut self, stack: &Stack) {
        let tiers = stack.tiers.iter().flat_map(|tier| &tier.settings);
        for (name, value) in tiers.chain(&stack.app_values) {
            self.learn(true, name, value);
        }
    }

    pub(super) fn learn_request(&mut self, request: &Request) {
        for (name, value) in &request.headers {
            if is_cookie(name) {
                let cookies = value.split(';').filter_map(|pair| pair.split_once('='));
                cookies.for_each(|(_, value)| self.remember(value, false));
            } else if !is_harmless_header(name) {
                // `Bearer abc`: what follows the first word is what opens the door.
                let rest = value.split_once(char::is_whitespace).map(|(_, rest)| rest);
                let words = value.split_whitespace().skip(1).chain(rest);
                let sure = is_secret_name(name);
                words
                    .chain([value.as_str()])
                    .for_each(|it| self.remember(it, sure));
            }
        }
        match &request.body {
            Some(Body::Form(fields)) => {
                for (name, value) in fields {
                    self.learn(is_harmless_field(name), name, value);
                }
            }
            Some(Body::Multipart(parts)) => {
                for part in parts {
                    if let PartContent::Value(value) = &part.content {
                        self.learn(is_harmless_field(&part.name), &part.name, value);
                    }
                }
            }
            Some(Body::Json(text) | Body::Text(text)) => {
                let values = scan::values_in(text);
                values.iter().for_each(|value| self.remember(value, false));
            }
            Some(Body::File(_) | Body::Bytes(_)) | None => {}
        }
    }

    fn learn(&mut self, harmless: bool, name: &str, value: &str) {
        let secret = self.is_secret(name);
        match behind_the_host(value) {
            _ if harmless && !secret => {}
            _ if !secret && is_whereabouts(name, value) => {}
            // Whom an application asks is what a finding names; what opens the door there is not.
            Some(parts) => parts.for_each(|part| self.remember(part, secret)),
            None => self.remember(value, secret),
        }
        if let Some((_, password)) = scan::credentials(value).and_then(|c| c.split_once(':')) {
            self.remember(password, true);
        }
    }

    /// Searches for a value from now on. One that is nothing but words is an ordinary one in sentences too, such as
    /// `production`: it is searched for only where it is sure to be a secret.
    fn remember(&mut self, value: &str, sure: bool) {
        let value = value.trim();
        let of_words = |c: char| c.is_alphabetic() || " _-.".contains(c);
        let ordinary = !sure && value.chars().all(of_words);
        let long = value.chars().count() >= SHORTEST_SEARCHED;
        if long && !ordinary && !scan::is_placeholder(value) && !value.contains(HIDDEN) {
            self.values.push(value.to_owned());
        }
    }
}

/// Whether a value is a host or a socket by its name and its characters: whom an application asks is what a finding names.
fn is_whereabouts(name: &str, value: &str) -> bool {
    const WORDS: [&str; 6] = ["HOST", "HOSTNAME", "SERVER", "SOCKET", "ADDR", "ADDRESS"];
    let upper = name.to_ascii_uppercase();
    let mut words = upper.split(|c: char| !c.is_ascii_alphanumeric());
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:/[]".contains(c);
    words.any(|word| WORDS.contains(&word)) && value.trim().chars().all(fits)
}

/// What an address has behind its host: the parts of its path and query. `None` for what is no address.
fn behind_the_host(value: &str) -> Option<impl Iterator<Item = &str>> {
    let (scheme, rest) = value.trim().split_once("://")?;
    let is_scheme = !scheme.is_empty()
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let path = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let parts = rest[path..].split(['/', '?', '&', '=', '#']);
    is_scheme.then(|| parts.filter(|part| !part.is_empty()))
}
