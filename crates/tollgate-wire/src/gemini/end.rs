//! Why Gemini stopped: the words of `finishReason` and `blockReason`, and what each means for the turn.

use crate::fault::WireFault;
use crate::turn::Finish;

/// What a word of `finishReason` makes of the turn.
pub(super) enum End {
    /// A turn.
    Turn(Finish),
    /// A turn that a filter cut.
    Filtered,
    /// Nothing that can be used, and what to do about it.
    Fault { hint: &'static str, is_retryable: bool },
}

/// The meaning of a word. One that nobody knows is kept as it is; calls of such a turn do not run.
pub(super) fn end(word: &str) -> End {
    let fault = |hint, is_retryable| End::Fault { hint, is_retryable };
    match word {
        "STOP" => End::Turn(Finish::Stop),
        "MAX_TOKENS" | "CONTINUATION" => End::Turn(Finish::Length),
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR"
        | "ESCALATION" => End::Filtered,
        "MALFORMED_FUNCTION_CALL" => {
            fault("the model wrote a call that nobody can read: ask again, or offer fewer or simpler tools", true)
        }
        "MALFORMED_RESPONSE" => fault("the model wrote what nobody can read: ask again", true),
        "UNEXPECTED_TOOL_CALL" => fault(
            "the model called what it was not offered: ask again, or say in the prompt which tools there are",
            true,
        ),
        "TOO_MANY_TOOL_CALLS" => fault(
            "the tools that the provider runs were called too often in one turn: ask for less at once, or offer fewer of them",
            false,
        ),
        "MISSING_THOUGHT_SIGNATURE" => fault(
            "the conversation has calls without the signatures of this model, such as those of another one: begin a new session",
            false,
        ),
        "PUP_LIMITED_DISABLED" => fault("the provider limited this account: look into its console", false),
        other => End::Turn(Finish::Other(other.to_owned())),
    }
}

/// The word for a finish.
pub(super) fn word(finish: &Finish) -> &str {
    match finish {
        Finish::Stop | Finish::ToolCalls | Finish::Paused => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::ContentFilter => "SAFETY",
        Finish::Other(word) => word,
    }
}

/// The prompt was refused before a model saw it.
pub(super) fn blocked(reason: &str, message: &str) -> WireFault {
    let hint = "the provider's filter stopped the prompt: say it in other words, or set `safetySettings` in `extra`";
    WireFault::ended(&format!("prompt blocked: {reason}"), message, hint, false)
}
