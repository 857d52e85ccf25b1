//! A look at the tags of HTML before it is parsed: how deep they stand in each other, and how many they are. It is an
//! estimate, close enough to keep away what would take the parser minutes; the page is measured again once it is parsed.

/// Elements that have no end.
const VOID: [&str; 16] = [
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr", "keygen",
];
/// Elements that end where the next of their kind begins.
const IMPLIED: [&str; 13] = ["p", "li", "dt", "dd", "option", "tr", "td", "th", "tbody", "thead", "tfoot", "rt", "rp"];
/// Elements in which such a row begins anew.
const HOLDING: [&str; 6] = ["ul", "ol", "dl", "table", "select", "ruby"];
/// Elements whose content is no markup.
const RAW: [&str; 5] = ["script", "style", "textarea", "title", "xmp"];
/// How far up the beginning of a kind is looked for.
const NEIGHBOURS: usize = 4;

/// Whether no tag stands deeper than `depth_max`, and there are no more than `tags_max`.
pub(super) fn is_bearable(html: &str, depth_max: usize, tags_max: usize) -> bool {
    let mut open: Vec<&str> = Vec::new();
    let mut tags = 0;
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let (is_end, named) = after.strip_prefix('/').map_or((false, after), |named| (true, named));
        let end = named.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(named.len());
        let (name, behind) = named.split_at_checked(end).unwrap_or((named, ""));
        rest = behind;
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || is_one(name, &VOID) {
            continue;
        }
        if is_end {
            if let Some(at) = open.iter().rposition(|one| one.eq_ignore_ascii_case(name)) {
                open.truncate(at);
            }
            continue;
        }
        tags += 1;
        if is_one(name, &RAW) {
            rest = after_raw(behind, name);
            continue;
        }
        if is_one(name, &IMPLIED) {
            let mut near = open.iter().enumerate().rev().take(NEIGHBOURS).take_while(|(_, one)| !is_one(one, &HOLDING));
            let same = near.find(|(_, one)| one.eq_ignore_ascii_case(name)).map(|(at, _)| at);
            open.truncate(same.unwrap_or(open.len()));
        }
        open.push(name);
        if open.len() > depth_max || tags > tags_max {
            return false;
        }
    }
    true
}

fn is_one(name: &str, names: &[&str]) -> bool {
    names.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// What follows the end of an element whose content is no markup.
fn after_raw<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("</") {
        if after.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return after;
        }
        rest = after;
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_told_from_breadth() {
        let bearable = |html: &str| is_bearable(html, 20, 1_000);
        for html in [
            "<div>".repeat(20),
            "<div><p>x</p></div>".repeat(100),
            "<p>x".repeat(100),
            "<ul><li>a<li>b</ul>".repeat(100),
            "<table><tr><td>1<td>2<tr><td>3</table>".repeat(100),
            "<div><span><b>x</div>".repeat(100),
            "<br><img src=x><hr>".repeat(500),
            format!("<script>{}</script>", "'<div>'".repeat(100)),
            format!("<!-- {} -->", "<div>".repeat(100)),
            "a < b and c <3 ".repeat(100),
        ] {
            assert!(bearable(&html), "{html}");
        }
        for html in [
            "<ul><li>".repeat(11),
            "<div>".repeat(21),
            "<DIV/>".repeat(21),
            "<b></i>".repeat(30),
            "<i>x</i>".repeat(1_001),
        ] {
            assert!(!bearable(&html), "{html}");
        }
    }
}
