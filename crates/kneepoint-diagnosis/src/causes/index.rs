//! The index that a query lacks, read from its text.

/// Columns of an index at most \[ours\]: what follows narrows little.
const COLUMNS: usize = 4;

/// Longest name of an index that both databases take, in bytes
/// (<https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-IDENTIFIERS>).
const LONGEST_NAME: usize = 63;
/// Columns of WordPress that are LONGTEXT (wp-admin/includes/schema.php): MariaDB takes a part of them only, and WordPress
/// itself takes so many characters of others.
const LONG_COLUMNS: [&str; 3] = ["meta_value", "option_value", "post_content"];
const LONG_PART: &str = "(191)";

/// An index for one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    /// The table, as the query writes it without quotes.
    pub(crate) table: String,
    columns: Vec<String>,
}

impl Index {
    /// For a query on one table whose conditions all hold at once (AND): columns that are compared for equality first, then
    /// those it sorts by, or else one of which it asks a range. `None` where the text does not tell: joins, OR, a subquery, a
    /// function around the column.
    pub(crate) fn of(query: &str) -> Option<Self> {
        let words = words(query);
        let is = |at: usize, word: &str| {
            words
                .get(at)
                .is_some_and(|it| it.eq_ignore_ascii_case(word))
        };
        let find = |word: &str| (0..words.len()).find(|at| is(*at, word));
        let hard = ["join", "or", "union", "like", "not"];
        if hard.iter().any(|word| find(word).is_some()) || query.matches("select ").count() > 1 {
            return None;
        }
        let (from, given) = (find("from").or_else(|| find("update"))?, find("where")?);
        let table = name(words.get(from + 1)?)?;
        // A comma, or anything but an alias, between the table and its conditions is a second table.
        if given < from + 2 || given > from + 4 || words[from..given].contains(&",") {
            return None;
        }
        let ends = ["order", "group", "limit", "having", "for", ";"];
        let end = (given..words.len()).find(|at| ends.iter().any(|word| is(*at, word)));
        let conditions = &words[given + 1..end.unwrap_or(words.len())];
        let (equal, ranges) = compared(conditions)?;
        let sorted = find("order").map_or_else(Vec::new, |at| sorted_by(&words[at..]));
        let mut columns = equal;
        let more = if sorted.is_empty() { ranges } else { sorted };
        for column in more {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns.truncate(COLUMNS);
        (!columns.is_empty()).then_some(Self { table, columns })
    }

    /// What it is called: `orders_by_customer_id`.
    pub(crate) fn name(&self) -> String {
        let short = self.table.rsplit('.').next().unwrap_or(&self.table);
        let mut name = format!("{short}_by_{}", self.columns.join("_"));
        let end = (0..=LONGEST_NAME)
            .rev()
            .find(|end| name.is_char_boundary(*end));
        name.truncate(end.unwrap_or(0));
        name
    }

    /// The statement that makes it. `online` is PostgreSQL's way to do so while others write.
    pub(crate) fn statement(&self, online: bool) -> String {
        let how = if online { " CONCURRENTLY" } else { "" };
        let column = |column: &String| {
            let is_long = !online && LONG_COLUMNS.contains(&column.as_str());
            format!("{column}{}", if is_long { LONG_PART } else { "" })
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        format!(
            "CREATE INDEX{how} {} ON {} ({});",
            self.name(),
            self.table,
            columns.join(", ")
        )
    }
}

/// Words, signs and commas of a query whose values were folded.
fn words(query: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = query.trim();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || "_.$`\"?".contains(c);
        let is_sign = |c: char| "<>=!".contains(c);
        let run = |of: &dyn Fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
        let taken = match first {
            c if is_word(c) => run(&is_word),
            c if is_sign(c) => run(&is_sign),
            c => c.len_utf8(),
        };
        if !first.is_whitespace() {
            words.push(&rest[..taken]);
        }
        rest = &rest[taken..];
    }
    words
}

/// A plain name without its quotes: `orders`, `shop.orders`.
fn name(word: &str) -> Option<String> {
    let plain = word.replace(['`', '"'], "");
    let fits = plain.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && plain
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    fits.then_some(plain)
}

/// The column of a name, without the alias of its table.
fn column(word: &str) -> Option<String> {
    let name = name(word)?;
    name.rsplit('.').next().map(str::to_owned)
}

/// Columns that are compared with one value or a list, and those of which a range is asked; `None` where a condition is of
/// another form.
fn compared(words: &[&str]) -> Option<(Vec<String>, Vec<String>)> {
    let (mut equal, mut ranges) = (Vec::new(), Vec::new());
    let is_and = |word: &&str| word.eq_ignore_ascii_case("and");
    for condition in words.split(is_and) {
        let condition: Vec<&str> = condition
            .iter()
            .copied()
            .filter(|word| !matches!(*word, "(" | ")"))
            .collect();
        match condition[..] {
            // What BETWEEN leaves behind its AND.
            ["?"] if !ranges.is_empty() => {}
            [of, "=", "?"] => equal.push(column(of)?),
            [of, list, "?", ..] if list.eq_ignore_ascii_case("in") => equal.push(column(of)?),
            [of, "<" | ">" | "<=" | ">=", "?"] => ranges.push(column(of)?),
            [of, between, "?"] if between.eq_ignore_ascii_case("between") => {
                ranges.push(column(of)?);
            }
            _ => return None,
        }
    }
    ranges.truncate(1);
    Some((equal, ranges))
}

/// The columns behind ORDER BY.
fn sorted_by(words: &[&str]) -> Vec<String> {
    let ends = ["limit", "offset", "for"];
    let listed = words.iter().skip(2).take_while(|word| {
        let ended = ends.iter().any(|end| word.eq_ignore_ascii_case(end));
        !ended && **word != ";"
    });
    let directions = ["asc", "desc", ","];
    let columns = listed.filter(|word| {
        !directions
            .iter()
            .any(|other| word.eq_ignore_ascii_case(other))
    });
    // An expression, or a place in the list of columns, is no column of an index.
    columns
        .map(|word| column(word))
        .collect::<Option<_>>()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_index_has_what_is_equal_first_then_what_is_sorted_by() {
        for (query, statement) in [
            (
                "select * from orders where mail = ?",
                Some("CREATE INDEX orders_by_mail ON orders (mail);"),
            ),
            (
                "SELECT id, title FROM articles WHERE author_id = ? ORDER BY published_at DESC LIMIT ?",
                Some(
                    "CREATE INDEX articles_by_author_id_published_at ON articles (author_id, published_at);",
                ),
            ),
            (
                "select o.* from `shop`.`orders` o where o.state in (?, ...) and o.made >= ? and o.made < ?",
                Some("CREATE INDEX orders_by_state_made ON shop.orders (state, made);"),
            ),
            (
                "select * from hits where day between ? and ?",
                Some("CREATE INDEX hits_by_day ON hits (day);"),
            ),
            ("update visitors set seen = ? where token = ?", None),
            ("select * from a join b on a.id = b.id where a.x = ?", None),
            ("select * from a, b where a.x = ?", None),
            ("select * from a where x = ? or y = ?", None),
            ("select * from a where lower(x) = ?", None),
            ("select * from a where x like ?", None),
            ("select * from a", None),
            (
                "select count(*) from a where x = ? order by rand()",
                Some("CREATE INDEX a_by_x ON a (x);"),
            ),
        ] {
            let index = Index::of(query).map(|index| index.statement(false));
            assert_eq!(index.as_deref(), statement, "{query}");
        }
        let index = Index::of("select * from a where x = ?").expect("an index");
        assert_eq!(
            index.statement(true),
            "CREATE INDEX CONCURRENTLY a_by_x ON a (x);"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics_and_only_names_get_into_a_statement(
            text in "\\PC{0,60}",
            query in "(select|update) [a-z*]{1,3} from [a-z.`;' -]{1,8} where [a-z.() ;'=<>?,-]{0,30}",
        ) {
            for text in [text, query] {
                if let Some(index) = Index::of(&text) {
                    let names = index.columns.iter().chain([&index.table]);
                    for name in names {
                        prop_assert!(name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.'), "{name}");
                    }
                }
            }
        }
    }
}
