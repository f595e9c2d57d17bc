//! The index that a query lacks, read from its text.

use crate::rule::prelude::*;
use kneepoint_model::{Change, Remedy, TracedCall};

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
    /// Names that the query writes in quotes: words of SQL's own, and capitals in PostgreSQL, need them.
    quoted: Vec<String>,
}

impl Index {
    /// For a query on one table whose conditions all hold at once (AND): columns that are compared for equality first, then
    /// those it sorts by, or else one of which it asks a range. Without one that is equal the range comes first: an index over
    /// what it sorts by would still be read from end to end. `None` where the text does not tell: joins, OR, a subquery, a
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
        let mut columns = Vec::new();
        let more = if equal.is_empty() || sorted.is_empty() {
            ranges
        } else {
            sorted
        };
        for column in equal.into_iter().chain(more) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns.truncate(COLUMNS);
        let names = table.split('.').map(str::to_owned);
        let names = names.chain(columns.iter().cloned());
        let is_quoted = |name: &String| {
            ['`', '"']
                .iter()
                .any(|quote| query.contains(&format!("{quote}{name}{quote}")))
        };
        let quoted = names.filter(is_quoted).collect();
        (!columns.is_empty()).then_some(Self {
            table,
            columns,
            quoted,
        })
    }

    /// What it is called: `orders_by_customer_id`.
    pub(crate) fn name(&self) -> String {
        let short = self.table.rsplit('.').next().unwrap_or(&self.table);
        let mut name = format!("{short}_by_{}", self.columns.join("_"));
        name.truncate(name.floor_char_boundary(LONGEST_NAME));
        name
    }

    /// The statement that makes it. `online` is PostgreSQL's way to do so while others write.
    pub(crate) fn statement(&self, online: bool) -> String {
        let (how, quote) = if online {
            (" CONCURRENTLY", '"')
        } else {
            ("", '`')
        };
        let written = |name: &str| match self.quoted.iter().any(|quoted| quoted == name) {
            true => format!("{quote}{name}{quote}"),
            false => name.to_owned(),
        };
        let column = |column: &String| {
            let is_long = !online && LONG_COLUMNS.contains(&column.as_str());
            format!(
                "{}{}",
                written(column),
                if is_long { LONG_PART } else { "" }
            )
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        let table: Vec<String> = self.table.split('.').map(written).collect();
        format!(
            "CREATE INDEX{how} {} ON {} ({});",
            self.name(),
            table.join("."),
            columns.join(", ")
        )
    }
}

/// Part of the time that requests wait for answers of queries that read, from which on one of them is what an index is made
/// for \[ours\].
const MOST_OF_WAIT: f64 = 0.5;

/// What to do about whole tables that are read: with the index, where most of the wait is for one query, and its text tells
/// which. `read` is the table of which most rows were read, where the database tells tables apart.
pub(crate) fn missing(rule: &Rule, evidence: &Evidence, read: Option<&str>) -> Remedy {
    let text = "EXPLAIN the queries that are listed; give the one that reads every row (type ALL, Seq Scan) an index over the \
                columns of its condition.";
    let index = waited_for_most(evidence)
        .and_then(|query| Index::of(&query.what))
        .filter(|index| read.is_none_or(|table| index.table.rsplit('.').next() == Some(table)));
    let Some(index) = index else {
        return Advice::new(evidence, text).build();
    };
    let statement = index.statement(rule.applies_to == AppliesTo::Server("postgresql"));
    let change = Change::Statement {
        name: &index.name(),
    };
    Advice::new(evidence, format!("{text} Most likely: {statement}"))
        .set_all([change.to(statement)])
        .build()
}

/// The query that reads for whose answers requests wait most of the time they wait for such; where nobody measured that, the
/// only one there is.
pub(crate) fn waited_for_most(evidence: &Evidence) -> Option<&TracedCall> {
    let is_waited_for = waited_for(evidence);
    let queries = evidence.traced(CallKind::Query);
    let queries: Vec<&TracedCall> = queries.filter(|call| is_waited_for(call)).collect();
    let all: u64 = queries.iter().map(|call| call.waited_us).sum();
    let most = queries.iter().max_by_key(|call| call.waited_us)?;
    let alike = queries.iter().filter(|call| call.what == most.what);
    let waited: u64 = alike.map(|call| call.waited_us).sum();
    let is_most = waited as f64 > MOST_OF_WAIT * all as f64;
    let is_only = all == 0 && queries.iter().all(|call| call.what == most.what);
    (is_most || is_only).then_some(most)
}

/// Whether a traced query reads, and is sent by a line that was met waiting for the database.
pub(crate) fn waited_for(evidence: &Evidence) -> impl Fn(&TracedCall) -> bool {
    let met = evidence.met_waiting(|wait| wait == "recv db");
    move |call| {
        let reads = call.what.trim_start().get(..6);
        reads.is_some_and(|word| word.eq_ignore_ascii_case("select"))
            && (met.is_empty() || met.iter().any(|met| call.named_place() == Some(met.place)))
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
    use crate::test_support::{place, traced};
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
                Some("CREATE INDEX orders_by_state_made ON `shop`.`orders` (state, made);"),
            ),
            (
                "select * from hits where day between ? and ?",
                Some("CREATE INDEX hits_by_day ON hits (day);"),
            ),
            (
                "select * from orders where created_at > ? order by id limit ?",
                Some("CREATE INDEX orders_by_created_at ON orders (created_at);"),
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

    /// Requests that ask these, each with the time in us that they waited for it.
    fn asking(queries: &[(&str, u64)]) -> Case {
        let calls = queries.iter().map(|(what, waited_us)| TracedCall {
            waited_us: *waited_us,
            ..traced(
                "GET /",
                CallKind::Query,
                what,
                place("App\\Db::ask", "app/Db.php", 7),
                1,
            )
        });
        Case::healthy().traced("GET /", 10, calls.collect())
    }

    #[track_caller]
    fn index(queries: &[(&str, u64)], expected: Option<&str>) {
        let rule = &crate::rules::RULES[0];
        let settings = missing(rule, &asking(queries).evidence(), None).settings;
        let statements: Vec<&str> = settings.iter().map(|it| it.value.as_str()).collect();
        assert_eq!(statements, Vec::from_iter(expected));
    }

    #[test]
    fn names_are_quoted_where_the_query_quotes_them_and_stand_once() {
        let statement = |query: &str, online| Index::of(query).expect(query).statement(online);
        assert_eq!(
            statement("select * from `cache` where `key` in (?)", false),
            "CREATE INDEX cache_by_key ON `cache` (`key`);"
        );
        assert_eq!(
            statement(r#"select * from orders where "customerId" = ?"#, true),
            r#"CREATE INDEX CONCURRENTLY orders_by_customerId ON orders ("customerId");"#
        );
        assert_eq!(
            statement("select * from a where tenant = ? and tenant = ?", false),
            "CREATE INDEX a_by_tenant ON a (tenant);"
        );
    }

    #[test]
    fn the_table_has_to_be_the_one_that_is_read() {
        let rule = &crate::rules::RULES[0];
        let evidence = asking(&[("select * from preorders where mail = ?", 9_000)]).evidence();
        let settings = |read| missing(rule, &evidence, Some(read)).settings.len();
        assert_eq!((settings("orders"), settings("preorders")), (0, 1));
    }

    #[test]
    fn an_index_is_made_for_the_query_that_is_waited_for_and_no_other() {
        let by_mail = ("select * from orders where mail = ?", 9_000);
        let by_key = ("select value from cache where keyname = ?", 2_000);
        let made = "CREATE INDEX orders_by_mail ON orders (mail);";
        index(&[by_mail, by_key], Some(made));
        // What is waited for needs no index, and the other is not what is waited for.
        index(&[("select count(*) from visits", 30_000), by_key], None);
        let three = [
            by_mail,
            ("select * from a where b = ?", 8_000),
            ("select * from c where d = ?", 7_000),
        ];
        index(&three, None);
    }
}
