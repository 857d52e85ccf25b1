//! Anthropic Messages.

use serde::de::Error as _;

use crate::fault::WireFault;
use crate::lower::Names;
use crate::request::Request;
use crate::stream::Assemble;
use crate::turn::Turn;

pub(crate) fn body(_: &Request<'_>) -> Result<Vec<u8>, serde_json::Error> {
    Err(serde_json::Error::custom("this dialect is not spoken yet"))
}

#[derive(Debug, Default)]
pub(crate) struct Assembler;

impl Assemble for Assembler {
    fn event(&mut self, json: &str) -> Result<(), WireFault> {
        self.reply(json)
    }

    fn reply(&mut self, json: &str) -> Result<(), WireFault> {
        Err(WireFault::malformed("this dialect is not read yet", json))
    }

    fn text(&self) -> &str {
        ""
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, _: &Names) -> Result<Turn, WireFault> {
        Err(WireFault::Closed)
    }
}
