//! Comma-separated values, RFC 4180, in UTF-8.

use std::io::{self, Write};

use super::{COLUMNS, Cell};

pub(super) fn head(out: &mut impl Write) -> io::Result<()> {
    let names = COLUMNS.map(|(name, _)| name);
    write!(out, "{}\r\n", names.join(","))
}

pub(super) fn row(out: &mut impl Write, row: &[Cell]) -> io::Result<()> {
    for (index, cell) in row.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::Nothing => {}
            Cell::Time(time) => write!(out, "{time:.6}")?,
            Cell::Number(number) => write!(out, "{number}")?,
            Cell::Text(value) => text(out, value)?,
        }
    }
    out.write_all(b"\r\n")
}

fn text(out: &mut impl Write, text: &str) -> io::Result<()> {
    // What a spreadsheet would compute, or send somewhere, is taken for text by its apostrophe.
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let mark = if is_formula { "'" } else { "" };
    if text.contains([',', '"', '\r', '\n']) {
        return write!(out, "\"{mark}{}\"", text.replace('"', "\"\""));
    }
    write!(out, "{mark}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_no_formula() {
        for (value, expected) in [
            ("a", "a"),
            ("北京, \"x\"", "\"北京, \"\"x\"\"\""),
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\n=1", "\"'\n=1\""),
            ("＝1", "'＝1"),
        ] {
            let mut out = Vec::new();
            text(&mut out, value).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
