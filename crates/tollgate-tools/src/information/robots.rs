//! `robots.txt` as RFC 9309 reads it: the group for us or for everybody, and of its rules the longest that fits.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// The name by which a site's operator speaks to us (RFC 9309 §2.2.1).
pub(super) const PRODUCT: &str = "tollgate";

/// A longer path is not written by anybody who means a page.
const PATTERN_BYTES_MAX: usize = 2_048;
const RULES_MAX: usize = 5_000;
/// What has to be written in octets, besides what is no ASCII (RFC 9309 §2.2.2).
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');

/// What a site says of its pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Robots {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    allows: bool,
    pattern: String,
}

/// Whom the lines after it are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Us,
    Everybody,
    Others,
}

impl Robots {
    /// Reads a file. What is not understood is passed over.
    pub(super) fn read(text: &str) -> Self {
        let (mut ours, mut everybodys, mut has_ours) = (Vec::new(), Vec::new(), false);
        let mut groups: Vec<Group> = Vec::new();
        // Several names may stand over one list of rules; the first rule closes the list of names.
        let mut is_naming = false;
        for line in text.trim_start_matches('\u{feff}').split(['\n', '\r']) {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "user-agent" => {
                    if !is_naming {
                        groups.clear();
                    }
                    is_naming = true;
                    let group = group(value);
                    has_ours |= group == Group::Us;
                    groups.push(group);
                }
                key @ ("allow" | "disallow") => {
                    is_naming = false;
                    let Some(rule) = rule(key == "allow", value) else { continue };
                    if groups.contains(&Group::Us) && ours.len() < RULES_MAX {
                        ours.push(rule.clone());
                    }
                    if groups.contains(&Group::Everybody) && everybodys.len() < RULES_MAX {
                        everybodys.push(rule);
                    }
                }
                _ => {}
            }
        }
        Self { rules: if has_ours { ours } else { everybodys } }
    }

    /// Whether the page at `path`, which begins with a slash and has its query, may be asked.
    pub(super) fn allows(&self, path: &str) -> bool {
        let path = normal(path);
        if path == "/robots.txt" {
            return true;
        }
        let fitting = self.rules.iter().filter(|rule| fits(&rule.pattern, &path));
        // The longest counts; of two alike the one that allows.
        let best = fitting.max_by_key(|rule| (rule.pattern.len(), rule.allows));
        best.is_none_or(|rule| rule.allows)
    }
}

fn group(name: &str) -> Group {
    if name.starts_with('*') {
        return Group::Everybody;
    }
    let end = name.find(|c: char| !(c.is_ascii_alphabetic() || matches!(c, '-' | '_'))).unwrap_or(name.len());
    let token = name.get(..end).unwrap_or_default();
    if token.eq_ignore_ascii_case(PRODUCT) { Group::Us } else { Group::Others }
}

fn rule(allows: bool, value: &str) -> Option<Rule> {
    // An empty rule says nothing.
    if value.is_empty() || value.len() > PATTERN_BYTES_MAX {
        return None;
    }
    let value = if value.starts_with(['/', '*']) { value.to_owned() } else { format!("/{value}") };
    Some(Rule { allows, pattern: normal(&value) })
}

/// One spelling for what means the same: octets that need not be encoded are not, all others are, in capitals.
fn normal(path: &str) -> String {
    let encoded = utf8_percent_encode(path, ENCODED).to_string();
    let mut normal = String::with_capacity(encoded.len());
    let mut rest = encoded.as_str();
    while let Some((before, after)) = rest.split_once('%') {
        normal.push_str(before);
        let octet = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = match octet {
            Some(octet) if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) => {
                normal.push(char::from(octet));
                after.get(2..).unwrap_or_default()
            }
            Some(octet) => {
                normal.push_str(&format!("%{octet:02X}"));
                after.get(2..).unwrap_or_default()
            }
            None => {
                normal.push('%');
                after
            }
        };
    }
    normal.push_str(rest);
    normal
}

/// `*` stands for anything, `$` at the end for the end.
fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, is_anchored) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return !is_anchored || rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if is_anchored && parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part).and_then(|at| rest.get(at + part.len()..)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_that_fits_counts() {
        let robots = Robots::read(
            "# a site\nUser-agent: *\nDisallow: /private/\nAllow: /private/open\nDisallow: /*.pdf$\nDisallow: /same\n\
             Allow: /same\nDisallow: /search?q=\nDisallow:\n",
        );
        for (path, allowed) in [
            ("/", true),
            ("/private", true),
            ("/private/", false),
            ("/private/x", false),
            ("/private/open/x", true),
            ("/a/b.pdf", false),
            ("/a/b.pdf?x", true),
            ("/same", true),
            ("/search?q=1", false),
            ("/search", true),
            ("/%70rivate/x", false),
            ("/robots.txt", true),
        ] {
            assert_eq!(robots.allows(path), allowed, "{path}");
        }
    }

    #[test]
    fn the_group_with_our_name_stands_for_itself() {
        let text = "Sitemap: https://x/s.xml\nDisallow: /before\nUser-Agent: other\nuser-agent: Tollgate/0.1\n\
                    Crawl-delay: 1\nDisallow: /ours\r\n\r\nUser-agent: *\rDisallow: /\n\nUser-agent: TOLLGATE\nDisallow: /more\n\
                    User-agent: tollgates\nDisallow: /theirs\n";
        let robots = Robots::read(text);
        for (path, allowed) in
            [("/", true), ("/before", true), ("/ours/x", false), ("/more", false), ("/theirs", true), ("/x", true)]
        {
            assert_eq!(robots.allows(path), allowed, "{path}");
        }
        let only_named = Robots::read("User-agent: tollgate\n\nUser-agent: *\nDisallow: /\n");
        assert!(!only_named.allows("/x"), "two names over one list");
        let ours_is_empty = Robots::read("User-agent: *\nDisallow: /\nUser-agent: tollgate\nDisallow:\n");
        assert!(ours_is_empty.allows("/x"));
    }

    #[test]
    fn paths_are_compared_by_what_they_mean() {
        let robots =
            Robots::read("user-agent:*\ndisallow:/文档/\ndisallow:/a%2fb\ndisallow:/%e4%ba%ac\ndisallow:*/end$\n");
        for (path, allowed) in [
            ("/%E6%96%87%E6%A1%A3/x", false),
            ("/a%2Fb", false),
            ("/a/b", true),
            ("/%E4%BA%AC", false),
            ("/x/y/end", false),
            ("/x/y/ends", true),
            ("/100%", true),
        ] {
            assert_eq!(robots.allows(path), allowed, "{path}");
        }
        assert!(Robots::read("").allows("/x"));
        assert!(Robots::read("<html>not found</html>").allows("/x"));
        assert!(!Robots::read("User-agent: *\nDisallow: private").allows("/private"));
    }
}
