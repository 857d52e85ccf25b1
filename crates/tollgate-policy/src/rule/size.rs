//! How large a rule may be. Cedar's parser and validator descend into expressions without asking how much stack is
//! left: what is nested too deeply must be refused before they see it, and what is let through is read on a stack that
//! is large enough.

use super::source::{RuleFault, RuleSource};

/// Operators and brackets of one rule: each may be one step down.
const STEPS_MAX: usize = 200;
/// Operators that are words.
const WORDS: [&str; 5] = ["if", "in", "has", "is", "like"];
/// Dots of one rule, likewise.
const DOTS_MAX: usize = 400;
/// An unoptimised build takes up to 130 KiB for one step, measured; a rule at both limits stays below this.
const STACK_BYTES: usize = 160 * 1024 * 1024;

/// Runs `read` on a stack that is large enough for every rule within the limits.
pub(crate) fn with_stack<T>(read: impl FnOnce() -> T) -> T {
    stacker::grow(STACK_BYTES, read)
}

/// The first rule that is too large.
pub(crate) fn check(source: &RuleSource) -> Result<(), Box<RuleFault>> {
    let (mut steps, mut dots) = (0, 0);
    let mut rest = source.text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '"' => skip_string(&mut rest),
            '/' if rest.peek().is_some_and(|(_, next)| *next == '/') => {
                while rest.next_if(|(_, c)| *c != '\n').is_some() {}
            }
            ';' => (steps, dots) = (0, 0),
            '.' => dots += 1,
            '(' | '[' | '{' | '&' | '|' | '+' | '-' | '*' | '!' | '<' | '>' | '=' | '?' => steps += 1,
            c if c.is_alphabetic() || c == '_' => {
                let mut end = at + c.len_utf8();
                while let Some((at, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                    end = at + c.len_utf8();
                }
                let is_operator = source.text.get(at..end).is_some_and(|word| WORDS.contains(&word));
                steps += usize::from(is_operator);
            }
            _ => {}
        }
        // `&&`, `||`, `==` and `<=` are two characters each.
        if steps > 2 * STEPS_MAX || dots > DOTS_MAX {
            let message = format!("a rule has at most {STEPS_MAX} operators and brackets, and {DOTS_MAX} dots");
            let hint = "write `[\"a\", \"b\"].contains(…)` for a long `||`, name a set of tools, or write two rules";
            return Err(Box::new(RuleFault::at(source, at, None, message).hint(hint)));
        }
    }
    Ok(())
}

fn skip_string(rest: &mut impl Iterator<Item = (usize, char)>) {
    while let Some((_, c)) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '"' => return,
            _ => {}
        }
    }
}
