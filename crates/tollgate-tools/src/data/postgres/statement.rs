//! A look at a statement before PostgreSQL gets it: that it is one, that it begins as what only reads, and which
//! functions it calls. It takes SQL apart into words and knows no grammar; whatever it is not sure of it refuses. What a
//! `READ ONLY` transaction refuses anyway is left to the server.

use std::collections::BTreeSet;

use tollgate_types::ToolError;

/// What statements that return rows begin with.
const SELECTS: [&str; 4] = ["select", "with", "values", "table"];
/// PostgreSQL's own limit; it cuts a longer name.
const NAME_BYTES_MAX: usize = 63;
/// Functions that run a text as SQL, read a table whose name is a text, or reach outside, and may be marked as if they
/// did not.
const REACHING: [&str; 9] = [
    "connectby",
    "crosstab",
    "cursor_to_xml",
    "database_to_xml",
    "dblink",
    "query_to_xml",
    "schema_to_xml",
    "table_to_xml",
    "xpath_table",
];
/// Where PostgreSQL keeps passwords. Who may read all tables may read these too.
const SECRET: [&str; 5] = ["pg_authid", "pg_shadow", "pg_subscription", "pg_user_mapping", "pg_user_mappings"];

/// A statement that may be sent.
#[derive(Debug)]
pub(super) struct Statement<'a> {
    /// Without a semicolon at its end.
    pub(super) sql: &'a str,
    /// Whether it can stand where a table can; `SHOW` and `EXPLAIN` can not.
    pub(super) is_select: bool,
    /// Every name that stands before a parenthesis, as the server looks it up.
    pub(super) called: BTreeSet<String>,
    /// Every name.
    pub(super) names: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A name without quotes, in lower case; may be a keyword.
    Word(String),
    /// A name in quotes.
    Quoted(String),
    /// A text, a number or a parameter.
    Value,
    Open,
    Close,
    End,
    Other,
}

impl<'a> Statement<'a> {
    pub(super) fn read(sql: &'a str) -> Result<Self, ToolError> {
        let tokens = Tokens { sql, at: 0 }.all()?;
        let end = tokens.iter().position(|(token, _)| *token == Token::End);
        let (tokens, sql) = match end.and_then(|end| Some((tokens.split_at_checked(end)?, tokens.get(end)?.1))) {
            None => (tokens.as_slice(), sql),
            Some(((tokens, rest), at)) => {
                if rest.iter().any(|(token, _)| *token != Token::End) {
                    return Err(ToolError::new("more than one statement")
                        .with_tool_code("SEVERAL_STATEMENTS")
                        .with_hint("send one SELECT a call, without anything after it"));
                }
                (tokens, sql.get(..at).unwrap_or_default())
            }
        };
        let tokens: Vec<&Token> = tokens.iter().map(|(token, _)| token).collect();
        let is_select = begins(&tokens)?;
        if tokens.iter().any(|token| is_word(token, "into")) {
            return Err(only_reads("`INTO`"));
        }
        let mut statement = Self { sql, is_select, called: BTreeSet::new(), names: BTreeSet::new() };
        for (index, token) in tokens.iter().enumerate() {
            let (Token::Word(name) | Token::Quoted(name)) = token else { continue };
            if SECRET.contains(&name.as_str()) {
                return Err(ToolError::new(format!("`{name}` holds passwords and is not read"))
                    .with_tool_code("NO_PERMISSION")
                    .with_hint("pg_roles shows the roles without their passwords"));
            }
            statement.names.insert(name.clone());
            if tokens.get(index + 1) == Some(&&Token::Open) {
                if REACHING.iter().any(|reaching| name.starts_with(reaching)) {
                    return Err(only_reads(&format!("the function `{name}`")));
                }
                statement.called.insert(name.clone());
            }
        }
        Ok(statement)
    }
}

/// The refusal of what is not known to read only.
pub(super) fn only_reads(what: &str) -> ToolError {
    ToolError::new(format!("this tool only reads: {what} is not allowed"))
        .with_tool_code("ONLY_READS")
        .with_hint("send one SELECT (or WITH, VALUES, TABLE, SHOW, EXPLAIN); nothing can be changed through this tool")
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found == word)
}

/// Whether it begins as rows do; else it must begin as what tells.
fn begins(tokens: &[&Token]) -> Result<bool, ToolError> {
    let mut rest = tokens.iter().skip_while(|token| ***token == Token::Open);
    match rest.next() {
        Some(Token::Word(first)) if SELECTS.contains(&first.as_str()) => Ok(true),
        Some(Token::Word(first)) if first == "show" => Ok(false),
        Some(Token::Word(first)) if first == "explain" => {
            let rest: Vec<&Token> = rest.copied().collect();
            if explains_rows(&rest) { Ok(false) } else { Err(only_reads("EXPLAIN of something else than a SELECT")) }
        }
        Some(Token::Word(first)) => Err(only_reads(&first.to_uppercase())),
        Some(_) => Err(only_reads("a statement that begins so")),
        None => Err(ToolError::new("there is no statement")
            .with_tool_code("SQL")
            .with_hint("send one SELECT, such as SELECT count(*) FROM orders")),
    }
}

/// Whether what follows `EXPLAIN` is a query, after its options.
fn explains_rows(tokens: &[&Token]) -> bool {
    let is_query = |token: Option<&&Token>| match token {
        Some(Token::Word(word)) => SELECTS.contains(&word.as_str()),
        _ => false,
    };
    let mut at = 0;
    if tokens.first() == Some(&&Token::Open) {
        let inner = tokens.iter().position(|token| **token != Token::Open).unwrap_or(0);
        if is_query(tokens.get(inner)) {
            return true;
        }
        at = tokens.iter().position(|token| **token == Token::Close).map_or(tokens.len(), |close| close + 1);
    }
    let mut rest = tokens.iter().skip(at).skip_while(|token| {
        is_word(token, "analyze") || is_word(token, "analyse") || is_word(token, "verbose") || ***token == Token::Open
    });
    is_query(rest.next())
}

/// SQL as PostgreSQL's own scanner takes it apart, as far as that matters here. `standard_conforming_strings` is on.
struct Tokens<'a> {
    sql: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// Every token with the place where it begins.
    fn all(mut self) -> Result<Vec<(Token, usize)>, ToolError> {
        let mut tokens = Vec::new();
        loop {
            self.skip_blank()?;
            let at = self.at;
            match self.next()? {
                Some(token) => tokens.push((token, at)),
                None => return Ok(tokens),
            }
        }
    }

    fn rest(&self) -> &'a str {
        self.sql.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Goes on after `end`, which must come.
    fn skip_past(&mut self, end: &str) -> Result<(), ToolError> {
        let found = self.rest().find(end).ok_or_else(unended)?;
        self.at += found + end.len();
        Ok(())
    }

    /// White space and comments.
    fn skip_blank(&mut self) -> Result<(), ToolError> {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}'));
            if self.rest().starts_with("--") {
                self.take_while(|c| c != '\n' && c != '\r');
            } else if self.rest().starts_with("/*") {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Comments of this kind stand in each other.
    fn skip_comment(&mut self) -> Result<(), ToolError> {
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            let mark = rest.find(['/', '*']).ok_or_else(unended)?;
            let mark_text = rest.get(mark..).unwrap_or_default();
            let (step, next) = match mark_text {
                text if text.starts_with("/*") => (2, depth + 1),
                text if text.starts_with("*/") => (2, depth.saturating_sub(1)),
                _ => (1, depth),
            };
            self.at += mark + step;
            depth = next;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Token>, ToolError> {
        let Some(first) = self.peek() else { return Ok(None) };
        Ok(Some(match first {
            '\'' => self.text(false)?,
            '"' => Token::Quoted(self.quoted()?),
            '$' => self.dollar()?,
            '(' => self.single(Token::Open),
            ')' => self.single(Token::Close),
            ';' => self.single(Token::End),
            c if c.is_ascii_digit() => {
                self.take_while(|c| c.is_ascii_digit() || c == '.');
                Token::Value
            }
            c if is_name_start(c) => self.word()?,
            c => {
                self.at += c.len_utf8();
                Token::Other
            }
        }))
    }

    fn single(&mut self, token: Token) -> Token {
        self.at += 1;
        token
    }

    /// A name, or the letter that says how the text after it is written.
    fn word(&mut self) -> Result<Token, ToolError> {
        let word = self.take_while(is_name_part);
        match (word, self.peek()) {
            ("e" | "E", Some('\'')) => self.text(true),
            ("b" | "B" | "x" | "X" | "n" | "N", Some('\'')) => self.text(false),
            // A name may be written in code points here, so nobody can say what it is.
            ("u" | "U", Some('&')) => Err(only_reads("`U&`")),
            _ => Ok(Token::Word(cut(&word.to_ascii_lowercase()))),
        }
    }

    fn text(&mut self, has_escapes: bool) -> Result<Token, ToolError> {
        self.at += 1;
        let mut chars = self.rest().char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' if has_escapes => drop(chars.next()),
                '\'' if chars.peek().is_some_and(|(_, next)| *next == '\'') => drop(chars.next()),
                '\'' => {
                    self.at += at + 1;
                    return Ok(Token::Value);
                }
                _ => {}
            }
        }
        Err(unended())
    }

    fn quoted(&mut self) -> Result<String, ToolError> {
        self.at += 1;
        let mut name = String::new();
        loop {
            name.push_str(self.take_while(|c| c != '"'));
            self.skip_past("\"")?;
            if self.peek() != Some('"') {
                return Ok(cut(&name));
            }
            name.push('"');
            self.at += 1;
        }
    }

    /// `$1`, or a text between `$tag$`.
    fn dollar(&mut self) -> Result<Token, ToolError> {
        let start = self.at;
        self.at += 1;
        let tag = self.take_while(|c| is_name_part(c) && c != '$');
        if tag.starts_with(|c: char| c.is_ascii_digit()) || self.peek() != Some('$') {
            return Ok(Token::Value);
        }
        self.at += 1;
        let mark = self.sql.get(start..self.at).unwrap_or_default();
        self.skip_past(mark)?;
        Ok(Token::Value)
    }
}

fn unended() -> ToolError {
    ToolError::new("a text, a name or a comment does not end")
        .with_tool_code("SQL")
        .with_hint("close every quote and every comment; a quote inside of a text is written twice")
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn is_name_part(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit() || c == '$'
}

/// A name as the server keeps it.
fn cut(name: &str) -> String {
    name.get(..name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(sql: &str) -> Vec<String> {
        Statement::read(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}")).called.into_iter().collect()
    }

    #[test]
    fn names_before_a_parenthesis_are_found_however_they_are_written() {
        for (sql, names) in [
            ("SELECT lower('pg_sleep(1)'), 1", vec!["lower"]),
            ("select PG_Read_File /* ( */ -- (\n ('x')", vec!["pg_read_file"]),
            ("SELECT \"pg_read_file\"('x'), \"a\"\"b\" (1)", vec!["a\"b", "pg_read_file"]),
            ("SELECT pg_catalog . nextval ('x')", vec!["nextval"]),
            ("SELECT $$ f(1) $$, $a$ g(1) $$ h(1) $a$, k($1)", vec!["k"]),
            (r"SELECT E'a\' f(1) ', 'b\', g(1)", vec!["g"]),
            ("SELECT 'it''s f(1)', x'00', 1.5e3, a$b(1)", vec!["a$b"]),
            ("SELECT /* a /* b( */ c( */ 名字(1)", vec!["名字"]),
            ("(SELECT 1) UNION (VALUES (2))", vec!["union", "values"]),
        ] {
            assert_eq!(called(sql), names, "{sql}");
        }
        assert_eq!(called(&format!("SELECT {}(1)", "x".repeat(80))), ["x".repeat(63)]);
    }

    #[test]
    fn only_one_statement_that_begins_as_what_reads() {
        for (sql, is_select) in [
            ("SELECT 1 ; -- done", true),
            ("/* a */ WITH a AS (SELECT 1) TABLE a;;", true),
            ("VALUES (1)", true),
            ("SHOW server_version", false),
            ("EXPLAIN SELECT 1", false),
            ("EXPLAIN (ANALYZE, COSTS off) SELECT 1", false),
            ("EXPLAIN ANALYZE VERBOSE (SELECT 1)", false),
            ("EXPLAIN (SELECT 1)", false),
        ] {
            assert_eq!(Statement::read(sql).unwrap().is_select, is_select, "{sql}");
        }
        for sql in [
            "INSERT INTO t VALUES (1)",
            "COPY t TO PROGRAM 'sh'",
            "COPY (SELECT 1) TO STDOUT",
            "SET ROLE postgres",
            "RESET ROLE",
            "BEGIN",
            "COMMIT",
            "DO $$ BEGIN END $$",
            "CALL p()",
            "EXECUTE p",
            "PREPARE p AS SELECT 1",
            "LISTEN x",
            "LOCK t",
            "VACUUM",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
            "EXPLAIN (ANALYZE) CREATE TABLE x AS SELECT 1",
            "SELECT 1 INTO x",
            "SELECT * FROM dblink('host=x', 'SELECT 1') AS t(a int)",
            "SELECT * FROM crosstab3('SELECT 1')",
            "SELECT U&\"\\0070g_read_file\"('x')",
            "'SELECT'",
        ] {
            let error = Statement::read(sql).unwrap_err();
            assert_eq!(error.tool_code.as_deref(), Some("ONLY_READS"), "{sql}: {error:?}");
        }
        for sql in ["SELECT 1; SELECT 2", "COMMIT; DROP SCHEMA public CASCADE;", "SELECT 1;;SELECT 2"] {
            assert_eq!(Statement::read(sql).unwrap_err().tool_code.as_deref(), Some("SEVERAL_STATEMENTS"), "{sql}");
        }
        for sql in ["", " -- nothing", ";", "SELECT 'a", "SELECT /* /* */", "SELECT $a$ $b$", "SELECT \"a"] {
            assert_eq!(Statement::read(sql).unwrap_err().tool_code.as_deref(), Some("SQL"), "{sql}");
        }
    }
}
