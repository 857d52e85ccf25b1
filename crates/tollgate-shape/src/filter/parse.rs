//! The grammar of filters, by one function a level of binding.

use serde_json::Value;

use super::FilterError;
use super::functions::Function;
use super::lex::{Word, words};

/// Brackets within brackets.
const DEPTH_MAX: usize = 32;
/// Words of one filter: what is read by functions that call themselves must not go on for long.
const WORDS_MAX: usize = 256;

/// A part of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    /// `.`
    Input,
    /// `..`
    All,
    /// A value as it is written.
    Literal(Value),
    /// `f | g`
    Pipe(Box<Term>, Box<Term>),
    /// `f, g`
    Both(Box<Term>, Box<Term>),
    /// `f + g` and its like.
    Binary(Operator, Box<Term>, Box<Term>),
    /// `-f`
    Minus(Box<Term>),
    /// `f[k]`
    At(Box<Term>, Box<Term>),
    /// `f[from:to]`
    Slice(Box<Term>, Option<Box<Term>>, Option<Box<Term>>),
    /// `f[]`
    Each(Box<Term>),
    /// `f?`
    Try(Box<Term>),
    /// `[f]`
    List(Option<Box<Term>>),
    /// `{k: f}`
    Object(Vec<(Term, Term)>),
    /// `if f then g else h end`
    If(Box<Term>, Box<Term>, Option<Box<Term>>),
    /// A function and what it is given.
    Call(Function, Vec<Term>),
}

/// What stands between two terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    Else,
    Plus,
    Minus,
    Times,
    Through,
    Modulo,
}

pub(super) fn parse(text: &str) -> Result<Term, FilterError> {
    let words = words(text)?;
    if let Some((at, _)) = words.get(WORDS_MAX) {
        return Err(FilterError::Syntax { message: format!("a filter has at most {WORDS_MAX} words"), at: *at });
    }
    let mut parser = Parser { words, next: 0, end: text.chars().count() + 1, depth: 0 };
    let term = parser.pipe()?;
    match parser.peek() {
        None => Ok(term),
        Some(_) => Err(parser.fault("this does not belong here")),
    }
}

struct Parser {
    words: Vec<(usize, Word)>,
    next: usize,
    end: usize,
    depth: usize,
}

type Parsed = Result<Term, FilterError>;

impl Parser {
    fn peek(&self) -> Option<&Word> {
        self.words.get(self.next).map(|(_, word)| word)
    }

    fn fault(&self, message: &str) -> FilterError {
        let at = self.words.get(self.next).map_or(self.end, |(at, _)| *at);
        FilterError::Syntax { message: message.into(), at }
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.peek(), Some(Word::Sign(found)) if *found == sign);
        self.next += usize::from(is_there);
        is_there
    }

    fn take_name(&mut self, name: &str) -> bool {
        let is_there = matches!(self.peek(), Some(Word::Name(found)) if found == name);
        self.next += usize::from(is_there);
        is_there
    }

    fn want(&mut self, sign: &str) -> Result<(), FilterError> {
        if self.take(sign) { Ok(()) } else { Err(self.fault(&format!("`{sign}` is missing"))) }
    }

    fn pipe(&mut self) -> Parsed {
        let mut parts = vec![self.comma()?];
        while self.take("|") {
            parts.push(self.comma()?);
        }
        let last = parts.pop().unwrap_or(Term::Input);
        Ok(parts.into_iter().rev().fold(last, |right, left| Term::Pipe(left.into(), right.into())))
    }

    fn comma(&mut self) -> Parsed {
        let mut term = self.binary(0)?;
        while self.take(",") {
            term = Term::Both(term.into(), self.binary(0)?.into());
        }
        Ok(term)
    }

    /// The operators of one level, the loosest first; those of a level bind to the left.
    fn binary(&mut self, level: usize) -> Parsed {
        const LEVELS: &[&[(&str, Operator)]] = &[
            &[("or", Operator::Or)],
            &[("and", Operator::And)],
            &[
                ("==", Operator::Equal),
                ("!=", Operator::Unequal),
                ("<=", Operator::LessOrEqual),
                (">=", Operator::MoreOrEqual),
                ("<", Operator::Less),
                (">", Operator::More),
            ],
            &[("//", Operator::Else)],
            &[("+", Operator::Plus), ("-", Operator::Minus)],
            &[("*", Operator::Times), ("/", Operator::Through), ("%", Operator::Modulo)],
        ];
        let Some(operators) = LEVELS.get(level) else { return self.postfix() };
        let mut term = self.binary(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(word, _)| self.take(word) || self.take_name(word)) {
            term = Term::Binary(*operator, term.into(), self.binary(level + 1)?.into());
        }
        Ok(term)
    }

    fn postfix(&mut self) -> Parsed {
        let mut term = self.primary()?;
        loop {
            if let Some(Word::Field(name)) = self.peek() {
                let name = Value::from(name.as_str());
                self.next += 1;
                term = Term::At(term.into(), Term::Literal(name).into());
            } else if self.take("?") {
                term = Term::Try(term.into());
            } else if self.take("[") {
                term = self.bracket(term)?;
            } else if self.take(".") {
                term = match self.peek() {
                    Some(Word::Text(name)) => {
                        let name = Value::from(name.as_str());
                        self.next += 1;
                        Term::At(term.into(), Term::Literal(name).into())
                    }
                    Some(Word::Sign("[")) => term,
                    _ => return Err(self.fault("a name is missing behind the point")),
                };
            } else {
                return Ok(term);
            }
        }
    }

    /// What stands behind `[` that follows a term.
    fn bracket(&mut self, term: Term) -> Parsed {
        if self.take("]") {
            return Ok(Term::Each(term.into()));
        }
        let from = if self.take(":") { None } else { Some(Box::new(self.pipe()?)) };
        let is_slice = from.is_none() || self.take(":");
        let to =
            if !is_slice || matches!(self.peek(), Some(Word::Sign("]"))) { None } else { Some(self.pipe()?.into()) };
        self.want("]")?;
        match from {
            Some(key) if !is_slice => Ok(Term::At(term.into(), key)),
            None if to.is_none() => Err(self.fault("a slice needs a beginning or an end")),
            from => Ok(Term::Slice(term.into(), from, to)),
        }
    }

    fn primary(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault(&format!("brackets go at most {DEPTH_MAX} deep")));
        }
        let term = self.single()?;
        self.depth -= 1;
        Ok(term)
    }

    fn single(&mut self) -> Parsed {
        let Some(word) = self.peek().cloned() else { return Err(self.fault("something is missing at the end")) };
        self.next += 1;
        match word {
            Word::Field(name) => Ok(Term::At(Term::Input.into(), Term::Literal(name.into()).into())),
            Word::Text(text) => Ok(Term::Literal(text.into())),
            Word::Number(number) => Ok(Term::Literal(Value::Number(number))),
            Word::Name(name) => self.named(&name),
            Word::Sign("..") => Ok(Term::All),
            Word::Sign(".") => Ok(match self.peek() {
                Some(Word::Text(name)) => {
                    let name = Value::from(name.as_str());
                    self.next += 1;
                    Term::At(Term::Input.into(), Term::Literal(name).into())
                }
                _ => Term::Input,
            }),
            Word::Sign("-") => Ok(Term::Minus(self.postfix()?.into())),
            Word::Sign("(") => {
                let term = self.pipe()?;
                self.want(")")?;
                Ok(term)
            }
            Word::Sign("[") if self.take("]") => Ok(Term::List(None)),
            Word::Sign("[") => {
                let term = self.pipe()?;
                self.want("]")?;
                Ok(Term::List(Some(term.into())))
            }
            Word::Sign("{") => self.object(),
            Word::Sign(_) => {
                self.next -= 1;
                Err(self.fault("a value or a function is missing here"))
            }
        }
    }

    fn named(&mut self, name: &str) -> Parsed {
        match name {
            "null" => return Ok(Term::Literal(Value::Null)),
            "true" => return Ok(Term::Literal(true.into())),
            "false" => return Ok(Term::Literal(false.into())),
            "if" => return self.condition(),
            _ => {}
        }
        let at = self.next - 1;
        let mut given = Vec::new();
        if self.take("(") {
            given.push(self.pipe()?);
            while self.take(";") {
                given.push(self.pipe()?);
            }
            self.want(")")?;
        }
        Function::find(name, given.len()).map(|function| Term::Call(function, given)).ok_or_else(|| {
            self.next = at;
            self.fault(&format!("there is no function `{}` that takes so much", name.escape_debug()))
        })
    }

    fn condition(&mut self) -> Parsed {
        let condition = self.pipe()?;
        let missing = |parser: &Self, word: &str| Err(parser.fault(&format!("`{word}` is missing")));
        if !self.take_name("then") {
            return missing(self, "then");
        }
        let then = self.pipe()?;
        let otherwise = if self.take_name("else") { Some(self.pipe()?.into()) } else { None };
        if !self.take_name("end") {
            return missing(self, "end");
        }
        Ok(Term::If(condition.into(), then.into(), otherwise))
    }

    fn object(&mut self) -> Parsed {
        let mut members = Vec::new();
        while !self.take("}") {
            if !members.is_empty() {
                self.want(",")?;
            }
            let Some(word) = self.peek().cloned() else { return Err(self.fault("`}` is missing")) };
            self.next += 1;
            let key = match word {
                Word::Name(name) | Word::Text(name) => Term::Literal(name.into()),
                Word::Sign("(") => {
                    let key = self.pipe()?;
                    self.want(")")?;
                    key
                }
                Word::Field(_) | Word::Number(_) | Word::Sign(_) => {
                    self.next -= 1;
                    return Err(self.fault("a name is missing here"));
                }
            };
            let value = if self.take(":") { self.binary(0)? } else { Term::At(Term::Input.into(), key.clone().into()) };
            members.push((key, value));
        }
        Ok(Term::Object(members))
    }
}
