//! The cookies of one user.

/// A browser's limits (RFC 6265, section 6.1).
const MOST_COOKIES: usize = 50;
const LARGEST_COOKIE: usize = 4096;

/// The cookies of one user, as name and value pairs.
#[derive(Debug, Default, Clone)]
pub(crate) struct Jar {
    cookies: Vec<(String, String)>,
    line: String,
}

/// Reads lines as `Set-Cookie` headers of one user, for the fuzz targets of `fuzz/`.
///
/// # Panics
/// More cookies are kept than a browser keeps, or a line break is.
#[cfg(any(test, feature = "fuzzing"))]
pub fn cookies(input: &[u8]) {
    let mut jar = Jar::default();
    for line in input.split(|byte| *byte == b'\n') {
        jar.store(line);
    }
    assert!(jar.cookies.len() <= MOST_COOKIES);
    assert!(
        !jar.line().bytes().any(|byte| byte < b' '),
        "{:?}",
        jar.line()
    );
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

    /// The value of a cookie.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut cookies = self.cookies.iter();
        let found = cookies.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Forgets them all.
    pub(crate) fn clear(&mut self) {
        self.cookies.clear();
        self.line.clear();
    }
}

/// Whether an attribute deletes the cookie. PHP always sends `Max-Age` beside `expires`.
fn ends_the_cookie(attribute: &str) -> bool {
    attribute.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("max-age")
            && value.trim().parse::<i64>().is_ok_and(|age| age <= 0)
    })
}
