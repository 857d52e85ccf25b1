//! A list of objects as a table.

use std::collections::HashSet;

use serde_json::{Map, Value};
use tollgate_types::{TableForm, limits};

use crate::items::longest_list;

/// The text of a value whose longest list consists of objects: its other members a line each, and the list as a table.
/// None for any other value, and for one with too many columns.
///
/// ```
/// use serde_json::json;
/// use tollgate_types::TableForm;
///
/// let stock = json!({"stock": [{"sku": "A103", "left": 7}, {"sku": "A104", "note": "a|b"}], "total": 247});
/// let text = tollgate_shape::table(&stock, TableForm::Markdown).unwrap();
/// assert_eq!(text, "total: 247\n\n| sku | left | note |\n|---|---|---|\n| A103 | 7 |  |\n| A104 |  | a\\|b |");
/// ```
pub fn table(value: &Value, form: TableForm) -> Option<String> {
    let list = longest_list(value)?;
    let rows: Vec<_> = list.items.iter().map(Value::as_object).collect::<Option<_>>()?;
    let columns = columns_of(&rows)?;
    let mut text = String::new();
    if let Value::Object(map) = value {
        for (key, member) in map.iter().filter(|(key, _)| list.key != Some(key.as_str())) {
            text.push_str(&format!("{}: {}\n", one_line(key), one_line(&cell(member))));
        }
        if !text.is_empty() {
            text.push('\n');
        }
    }
    write_row(&mut text, columns.iter().map(|column| (*column).to_owned()), form);
    if form == TableForm::Markdown {
        text.push_str(&format!("|{}\n", "---|".repeat(columns.len())));
    }
    for row in rows {
        write_row(&mut text, columns.iter().map(|column| row.get(*column).map(cell).unwrap_or_default()), form);
    }
    text.truncate(text.trim_end_matches('\n').len());
    Some(text)
}

/// The names in the order in which they first come.
fn columns_of<'a>(rows: &[&'a Map<String, Value>]) -> Option<Vec<&'a str>> {
    let (mut columns, mut known) = (Vec::new(), HashSet::new());
    for key in rows.iter().flat_map(|row| row.keys()) {
        if known.insert(key.as_str()) {
            columns.push(key.as_str());
        }
        if columns.len() > limits::TABLE_COLUMNS_MAX {
            return None;
        }
    }
    (!columns.is_empty()).then_some(columns)
}

fn write_row(text: &mut String, cells: impl Iterator<Item = String>, form: TableForm) {
    match form {
        TableForm::Markdown => {
            text.push('|');
            for cell in cells {
                text.push_str(&format!(" {} |", one_line(&cell).replace('|', "\\|")));
            }
        }
        TableForm::Tsv => {
            let cells: Vec<String> = cells.map(|cell| one_line(&cell.replace('\t', " "))).collect();
            text.push_str(&cells.join("\t"));
        }
    }
    text.push('\n');
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn one_line(text: &str) -> String {
    text.replace("\r\n", " ").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_of_any_shape() {
        let tsv = |value: Value| table(&value, TableForm::Tsv);
        assert_eq!(
            tsv(json!([{"a": 1, "b": "x\ty\nz"}, {"c": {"d": [1]}}])).unwrap(),
            "a\tb\tc\n1\tx y z\t\n\t\t{\"d\":[1]}"
        );
        for no_table in [json!([1, 2]), json!([]), json!({"a": 1}), json!("x"), json!([{}]), json!([{"a": 1}, 2])] {
            assert_eq!(tsv(no_table), None);
        }
        let wide: serde_json::Map<String, Value> = (0..101).map(|n| (n.to_string(), json!(n))).collect();
        assert_eq!(tsv(json!([wide])), None);
    }
}
