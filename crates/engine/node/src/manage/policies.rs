//! Named policies.

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::names::Name;
use cairn_env::Env;
use cairn_types::{FaultToleranceMethod, Feature, Policy};

use crate::{manage::directory_error, node::Node};

impl<E: Env> Node<E> {
    /// Every policy with the number of disks that were made with it.
    pub(crate) async fn policy_list(&self) -> ApiResult<Vec<v1::Policy>> {
        Ok(self.policies())
    }

    pub(crate) async fn policy_show(&self, policy: String) -> ApiResult<v1::Policy> {
        let found = self.policies().into_iter().find(|p| p.name == policy);
        found.ok_or_else(|| {
            ApiError::not_found(format!("there is no policy {policy:?}")).remedy("See `cairn policy list`")
        })
    }

    fn policies(&self) -> Vec<v1::Policy> {
        let disks = self.catalogue();
        let known = self.inner.copy.borrow().list::<Policy>();
        let one = |(name, policy): (Name, Policy)| v1::Policy {
            builtin: name.as_str() == v1::DEFAULT_POLICY,
            rules: v1::PolicyRules::from(&policy),
            disks: disks.iter().filter(|(_, d)| d.policy_name == name).count() as u32,
            name: name.as_str().to_owned(),
        };
        known.into_iter().map(one).collect()
    }

    pub(crate) async fn policy_create(&self, request: v1::PolicyCreate) -> ApiResult<v1::Policy> {
        request.validate()?;
        let name = Name::new(request.name.clone()).map_err(|e| ApiError::invalid(e.to_string()))?;
        let policy = Policy::from(&request.rules);
        self.check_policy_is_on(&policy)?;
        let created = self.inner.registry.create(&name, &policy).await;
        created.map_err(|error| match error.is_conflict() {
            true => ApiError::conflict(format!("a policy named {:?} exists already", request.name))
                .remedy("Choose another name, or delete it first"),
            false => directory_error(error),
        })?;
        Ok(v1::Policy { name: request.name, builtin: false, rules: request.rules, disks: 0 })
    }

    /// Refuses a policy that hosts of earlier releases do not know.
    pub(crate) fn check_policy_is_on(&self, policy: &Policy) -> ApiResult<()> {
        match policy.ftm {
            FaultToleranceMethod::Mirror => Ok(()),
            FaultToleranceMethod::ErasureCoding { .. } => self.check_is_on(Feature::ErasureCoding, "erasure coding"),
        }
    }

    pub(crate) async fn policy_delete(&self, policy: String) -> ApiResult<()> {
        if policy == v1::DEFAULT_POLICY {
            return Err(ApiError::refused("the default policy cannot be deleted"));
        }
        let name = Name::new(&policy).map_err(|e| ApiError::invalid(e.to_string()))?;
        let used = self.catalogue().iter().filter(|(_, d)| d.policy_name == name).count();
        if used > 0 {
            return Err(ApiError::refused(format!("{used} disks were made with policy {policy:?}"))
                .remedy("Delete them first, or leave the policy"));
        }
        match self.inner.registry.remove::<Policy>(&name).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ApiError::not_found(format!("there is no policy {policy:?}"))),
            Err(error) => Err(directory_error(error)),
        }
    }

    /// The policy of this name as the directory has it.
    pub(crate) async fn policy(&self, name: &str) -> ApiResult<Policy> {
        let id = Name::new(name).map_err(|e| ApiError::invalid(e.to_string()))?;
        let found = self.inner.registry.get::<Policy>(&id).await.map_err(directory_error)?;
        found.map(|f| f.entry).ok_or_else(|| {
            ApiError::not_found(format!("there is no policy {name:?}")).remedy("See `cairn policy list`")
        })
    }
}
