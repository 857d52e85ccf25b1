//! Who may follow a resource: the decision on the call that asks for it, without the call. It is asked again for as long as
//! somebody follows.

use serde_json::Value;
use tollgate_types::{Call, CallKind, Caller, Following};

use crate::gate::{Inner, is_allowed};
use crate::stage::admit;
use crate::stage::find::{self, Found};

impl Inner {
    pub(crate) fn following(&self, caller: &Caller, call: Call) -> Following {
        let found = find::look(self, CallKind::Subscription, &call.name, false);
        let is_allowed = found.map(|found| self.may_follow(caller, &found, &call));
        Following { name: call.name, is_allowed }
    }

    fn may_follow(&self, caller: &Caller, found: &Found, call: &Call) -> bool {
        let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else { return false };
        let policy = self.policy.now();
        let decide = |definition| self.decide_call(&policy, caller, definition, &arguments, &call.said);
        admit::kept_back(self, caller, &policy, found).is_none()
            && found.definitions().all(|definition| is_allowed(decide(definition).effect))
    }
}
