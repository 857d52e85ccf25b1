//! Where a JSON value ends, told byte by byte. It follows brackets and strings and nothing else, so that text which
//! arrives in pieces is looked at once.

/// How far a growing JSON object, array or string has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extent {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    has_ended: bool,
    has_more: bool,
}

impl Extent {
    /// Takes the next piece.
    pub(crate) fn feed(&mut self, piece: &str) {
        piece.bytes().for_each(|byte| self.feed_byte(byte));
    }

    /// Takes the next byte.
    pub(crate) fn feed_byte(&mut self, byte: u8) {
        if self.has_ended {
            self.has_more |= !byte.is_ascii_whitespace();
        } else if self.is_in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.is_in_string = false;
                    self.has_ended = self.depth == 0;
                }
                _ => {}
            }
        } else {
            match byte {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.has_ended = self.depth == 0;
                }
                _ => {}
            }
        }
    }

    /// Whether the first value is whole.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether something came after it.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }
}
