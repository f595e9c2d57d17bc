//! Users and their cookie jars. One jar shared by all would serialise the load on one session lock.

use std::collections::VecDeque;

/// A browser's limits (RFC 6265, section 6.1).
const MOST_COOKIES: usize = 50;
const LARGEST_COOKIE: usize = 4096;

/// The cookies of one user, as name and value pairs.
#[derive(Debug, Default, Clone)]
pub(crate) struct Jar {
    cookies: Vec<(String, String)>,
    line: String,
}

impl Jar {
    /// Takes the value of a `Set-Cookie` header. Path and domain are not looked at: there is one site.
    pub(crate) fn store(&mut self, header: &[u8]) {
        let Ok(text) = std::str::from_utf8(header) else {
            return;
        };
        let mut parts = text.split(';').map(str::trim);
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let (name, value) = (name.trim(), value.trim());
        let unsafe_text = |t: &str| t.bytes().any(|b| b < b' ' || b == 0x7f);
        if name.is_empty() || text.len() > LARGEST_COOKIE || unsafe_text(name) || unsafe_text(value)
        {
            return;
        }
        self.cookies.retain(|(known, _)| known != name);
        if !parts.any(ends_the_cookie) && self.cookies.len() < MOST_COOKIES {
            self.cookies.push((name.to_owned(), value.to_owned()));
        }
        self.write_line();
    }

    fn write_line(&mut self) {
        self.line.clear();
        for (name, value) in &self.cookies {
            if !self.line.is_empty() {
                self.line.push_str("; ");
            }
            self.line.push_str(name);
            self.line.push('=');
            self.line.push_str(value);
        }
    }

    /// The value of the `Cookie` header; empty without cookies.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }
}

/// Whether an attribute deletes the cookie. PHP always sends `Max-Age` beside `expires`.
fn ends_the_cookie(attribute: &str) -> bool {
    attribute.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("max-age")
            && value.trim().parse::<i64>().is_ok_and(|age| age <= 0)
    })
}

/// The users of one thread. A user who is free serves next, in turn; when all are busy, the turn goes on among
/// the busy ones, like a visitor with two tabs, since the schedule and not the server decides when to start.
#[derive(Debug)]
pub(crate) struct Users {
    jars: Vec<Jar>,
    in_flight: Vec<u32>,
    free: VecDeque<u32>,
    turn: u32,
}

impl Users {
    pub(crate) fn new(count: u32) -> Self {
        let count = count.max(1);
        Self {
            jars: vec![Jar::default(); count as usize],
            in_flight: vec![0; count as usize],
            free: (0..count).collect(),
            turn: 0,
        }
    }

    /// Whose turn it is.
    pub(crate) fn take(&mut self) -> u32 {
        let user = self.free.pop_front().unwrap_or_else(|| {
            self.turn = (self.turn + 1) % self.jars.len() as u32;
            self.turn
        });
        self.in_flight[user as usize] += 1;
        user
    }

    /// One request of the user has ended.
    pub(crate) fn give_back(&mut self, user: u32) {
        let in_flight = &mut self.in_flight[user as usize];
        *in_flight -= 1;
        if *in_flight == 0 {
            self.free.push_back(user);
        }
    }

    pub(crate) fn jar(&self, user: u32) -> &Jar {
        &self.jars[user as usize]
    }

    pub(crate) fn jar_mut(&mut self, user: u32) -> &mut Jar {
        &mut self.jars[user as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(headers: &[&str], line: &str) {
        let mut jar = Jar::default();
        headers.iter().for_each(|h| jar.store(h.as_bytes()));
        assert_eq!(jar.line(), line, "{headers:?}");
    }

    #[test]
    fn cookies_are_kept_replaced_and_deleted() {
        check(
            &["PHPSESSID=a1; path=/; HttpOnly", "xsrf=\"q=\"; Max-Age=60"],
            "PHPSESSID=a1; xsrf=\"q=\"",
        );
        check(&["a=1", "b=2", "a=3"], "b=2; a=3");
        check(
            &[
                "a=1",
                "a=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=0",
            ],
            "",
        );
        check(&["nonsense", "=x", "a=1\u{1}"], "");
    }

    #[test]
    fn users_take_turns_and_are_shared_only_when_all_are_busy() {
        let mut users = Users::new(2);
        let (first, second) = (users.take(), users.take());
        assert_ne!(first, second);
        let third = users.take();
        users.give_back(first);
        users.give_back(second);
        users.give_back(third);
        let next = [users.take(), users.take()];
        assert_ne!(next[0], next[1], "everybody is free again, once");
    }

    proptest! {
        #[test]
        fn no_header_breaks_the_next_request(headers in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
            let mut jar = Jar::default();
            headers.iter().for_each(|h| jar.store(h));
            prop_assert!(jar.line().bytes().all(|b| b >= b' ' && b != 0x7f));
        }
    }
}
