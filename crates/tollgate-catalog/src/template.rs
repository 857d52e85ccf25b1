//! URI templates (RFC 6570), the other way round: whether a URI may have come of one. What a name stands for is the
//! server's to say; here only its extent counts.

/// Expressions of one template.
const EXPRESSIONS_MAX: usize = 32;

/// A template, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UriTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// `{name}`: at least one character, and none of `/`, `?` and `#`.
    Segment,
    /// `{+name}`, `{?name}`, `{name*}` and their like: whatever there is, and be it nothing.
    Rest,
}

impl UriTemplate {
    /// Reads a template, or says what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}').ok_or("a `{` of it is not closed")?;
            if literal.contains('}') || expression.contains('{') {
                return Err("its braces do not fit");
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let is_simple = expression.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'%');
            parts.push(if is_simple { Part::Segment } else { Part::Rest });
            rest = after;
        }
        if rest.contains('}') {
            return Err("its braces do not fit");
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        if parts.iter().filter(|part| !matches!(part, Part::Literal(_))).count() > EXPRESSIONS_MAX {
            return Err("it has more than 32 expressions");
        }
        Ok(Self(parts))
    }

    /// How much of it is said: of two that fit, the one that says more is meant.
    pub(crate) fn literal_bytes(&self) -> usize {
        let literal = |part: &Part| if let Part::Literal(text) = part { text.len() } else { 0 };
        self.0.iter().map(literal).sum()
    }

    /// Whether the URI may have come of it. Costs the length of the URI for each part.
    pub(crate) fn fits(&self, uri: &str) -> bool {
        let bytes = uri.as_bytes();
        // Where the parts so far may end.
        let mut ends = vec![false; bytes.len() + 1];
        if let Some(start) = ends.first_mut() {
            *start = true;
        }
        for part in &self.0 {
            ends = part.extend(bytes, &ends);
        }
        ends.last() == Some(&true)
    }
}

impl Part {
    fn extend(&self, bytes: &[u8], from: &[bool]) -> Vec<bool> {
        let mut ends = vec![false; from.len()];
        let mut is_open = false;
        for (at, can_start) in from.iter().enumerate() {
            match self {
                Self::Literal(text) => {
                    let fits = *can_start && bytes.get(at..).is_some_and(|rest| rest.starts_with(text.as_bytes()));
                    if let Some(end) = ends.get_mut(at + text.len()).filter(|_| fits) {
                        *end = true;
                    }
                }
                Self::Segment => {
                    let goes_on = bytes.get(at).is_some_and(|byte| !b"/?#".contains(byte));
                    is_open = (is_open || *can_start) && goes_on;
                    if let Some(end) = ends.get_mut(at + 1).filter(|_| is_open) {
                        *end = true;
                    }
                }
                Self::Rest => {
                    is_open |= *can_start;
                    if let Some(end) = ends.get_mut(at) {
                        *end = is_open;
                    }
                }
            }
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_come_of_a_template_fits_it() {
        for (template, uri, fits) in [
            ("demo://resource/{id}", "demo://resource/1", true),
            ("demo://resource/{id}", "demo://resource/", false),
            ("demo://resource/{id}", "demo://resource/1/2", false),
            ("demo://resource/{id}/data", "demo://resource/1/data", true),
            ("demo://resource/{id}/data", "demo://resource/1/dat", false),
            ("file:///{path*}", "file:///a/b/c", true),
            ("file:///{+path}", "file:///", true),
            ("x://{a}{?q,r}", "x://a?q=1&r=2", true),
            ("x://{a}{?q,r}", "x://a", true),
            ("x://{a}-{b}", "x://1-2-3", true),
            ("x://{name}", "x://读取", true),
            ("x://plain", "x://plain", true),
            ("x://plain", "x://plainer", false),
        ] {
            assert_eq!(UriTemplate::read(template).unwrap().fits(uri), fits, "{template} {uri}");
        }
        for broken in ["x://{a", "x://a}", "x://{a{b}}", "x://}{"] {
            assert!(UriTemplate::read(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_hostile_pair_costs_little() {
        let template = UriTemplate::read(&"{+a}a".repeat(32)).unwrap();
        assert!(!template.fits(&format!("{}b", "a".repeat(4_000))));
        assert!(UriTemplate::read(&"{a}".repeat(33)).is_err());
    }
}
