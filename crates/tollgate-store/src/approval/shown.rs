//! A question as people read it: complete, and nothing in it looks like the frame around it.

use tollgate_types::{WaitingKind, visible};

use super::Approval;

impl Approval {
    /// The whole question as plain text. What an asker wrote stands in blocks that it cannot leave, hidden characters are
    /// escapes, and where it is so long that its beginning is out of sight, the end says so.
    pub fn shown(&self) -> String {
        let line = visible::line;
        let mut shown = format!(
            "{} — {}\n{} ({}, {}) asked by {} ({}) through {}\nbecause {}\nexpires {}",
            self.id,
            self.status.name(),
            line(&self.tool),
            line(&self.risk),
            line(&self.permission),
            line(&self.subject),
            line(&self.role),
            line(&self.surface),
            line(&self.reason),
            self.expires,
        );
        if let Some(by) = &self.decided_by {
            let why = self.decision_reason.as_deref().map(|why| format!(": {}", line(why))).unwrap_or_default();
            shown.push_str(&format!("\nanswered by {}{why}", line(by)));
        }
        if let Some(typed) = self.typed.as_ref().filter(|_| self.is_open()) {
            shown.push_str(&format!("\na yes must be typed: {}", line(typed)));
        }
        if let (WaitingKind::Intervention, true) = (self.kind, self.is_open()) {
            shown.push_str("\nit wants the result of the call, or a no");
        }
        if self.approvers > 1 {
            let said = if self.yes_by.is_empty() { "nobody".to_owned() } else { line(&self.yes_by.join(", ")) };
            shown.push_str(&format!("\n{} persons must say yes; so far {said}", self.approvers));
        }
        let asked = self.asked();
        shown.push_str(&format!("\n\n{asked}"));
        if let Some(size) = visible::size(&asked) {
            let (tool, risk) = (line(&self.tool), line(&self.risk));
            shown.push_str(&format!("\n\n{size}: read it from its beginning. It asks for {tool} ({risk})."));
        }
        shown
    }

    /// What was asked, in blocks.
    fn asked(&self) -> String {
        let arguments = visible::block(&visible::pretty(&self.arguments));
        let mut asked = format!("arguments:\n{arguments}");
        if let Some(preview) = &self.preview {
            asked.push_str(&format!("\n\nwhat would run:\n{}", visible::block(preview)));
        }
        for (name, value) in [("what was tried", &self.tried), ("what the result must fit", &self.expects)] {
            if let Some(value) = value {
                asked.push_str(&format!("\n\n{name}:\n{}", visible::block(&visible::pretty(value))));
            }
        }
        asked
    }
}
