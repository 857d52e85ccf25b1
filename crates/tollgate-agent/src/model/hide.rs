//! Takes what the operator keeps secret out of what a server is asked, and out of what it says. Servers repeat keys in
//! what they complain about.

use std::borrow::Cow;
use std::fmt;

use tollgate_guard::redact::{Redactor, SECRET_BYTES_MIN};
use tollgate_types::Secret;
use tollgate_wire::{Message, Part, WireFault};

use super::{ModelConfig, ModelError};

/// A shorter word of a header's value is no secret of its own, such as the scheme before a token.
const WORD_BYTES_MIN: usize = 8;

/// A conversation as its model may see it. What a provider wants back unchanged stays as it is.
pub(super) fn in_messages<'a>(redactor: &Redactor, messages: &'a [Message]) -> Cow<'a, [Message]> {
    let mut shown = Cow::Borrowed(messages);
    for (at, message) in messages.iter().enumerate() {
        let mut clean = message.clone();
        if hide_in_message(redactor, &mut clean)
            && let Some(place) = shown.to_mut().get_mut(at)
        {
            *place = clean;
        }
    }
    shown
}

/// Whether anything was hidden.
fn hide_in_message(redactor: &Redactor, message: &mut Message) -> bool {
    let mut is_changed = false;
    let mut hide = |text: &mut String| {
        if let Cow::Owned(clean) = redactor.for_model(text) {
            *text = clean;
            is_changed = true;
        }
    };
    match message {
        Message::System(text) => hide(text),
        Message::User(content) | Message::Tool { content, .. } => content.texts_mut().for_each(hide),
        Message::Assistant { text, calls, kept, .. } => {
            hide(text);
            let parts = kept.iter_mut().flat_map(|kept| &mut kept.parts);
            parts.for_each(|part| {
                if let Part::Text(text) = part {
                    hide(text)
                }
            });
            calls.iter_mut().for_each(|call| hide(&mut call.arguments));
        }
    }
    is_changed
}

/// The key and the headers of one model, to be hidden in whatever form they come back. A text must be cut after, or
/// the cut may go through a secret.
#[derive(Clone)]
pub(super) struct Secrets {
    redactor: Redactor,
    markers: Vec<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    pub(super) fn of(config: &ModelConfig) -> Self {
        let values = config.api_key.iter().chain(config.headers.iter().map(|(_, value)| value));
        let texts: Vec<&str> = values
            .flat_map(|value| {
                let words = value.expose().split_ascii_whitespace().filter(|word| word.len() >= WORD_BYTES_MIN);
                words.chain([value.expose().trim()])
            })
            .filter(|text| text.len() >= SECRET_BYTES_MIN)
            .collect();
        let redactor = Redactor::new(&[], texts.iter().map(|text| Secret::new(*text)));
        let markers = texts.iter().map(|text| redactor.secrets_only(text).into_owned()).collect();
        Self { redactor, markers }
    }

    /// The text with `[secret]` in the place of each.
    pub(super) fn hide(&self, text: &str) -> String {
        let clean = self.redactor.secrets_only(text).into_owned();
        // The digits of a marker are made from the secret, and here without the key of an installation.
        self.markers.iter().fold(clean, |clean, marker| clean.replace(marker, "[secret]"))
    }

    pub(super) fn hide_in(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::Status { status, message, retry_after_ms } => {
                ModelError::Status { status, message: self.hide(&message), retry_after_ms }
            }
            ModelError::NotJson { content_type, excerpt } => {
                ModelError::NotJson { content_type: self.hide(&content_type), excerpt: self.hide(&excerpt) }
            }
            ModelError::PreviousGone { message } => ModelError::PreviousGone { message: self.hide(&message) },
            ModelError::Malformed { fault: WireFault::Server { message } } => {
                ModelError::Malformed { fault: WireFault::Server { message: self.hide(&message) } }
            }
            ModelError::Malformed { fault: WireFault::Malformed { reason, excerpt } } => {
                let (reason, excerpt) = (self.hide(&reason), self.hide(&excerpt));
                ModelError::Malformed { fault: WireFault::Malformed { reason, excerpt } }
            }
            ModelError::Malformed { fault: WireFault::Ended { word, message, hint, is_retryable } } => {
                let (word, message) = (self.hide(&word), self.hide(&message));
                ModelError::Malformed { fault: WireFault::Ended { word, message, hint, is_retryable } }
            }
            other => other,
        }
    }
}
