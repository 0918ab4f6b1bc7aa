//! `cairn policy`.

use cairn_api::v1::{Policy, PolicyCreate, PolicyRules, RulesMethod};

use super::Context;
use crate::{
    args::{Method, Policy as Verb, PolicyCreate as Wanted},
    fail::Fail,
    output,
};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let client = &context.client;
    match verb {
        Verb::List => {
            let policies = client.policy_list().await?;
            output::show(context.format, &policies, |policies| list(policies))
        }
        Verb::Show { policy } => {
            let policy = client.policy_show(policy).await?;
            output::show(context.format, &policy, show)
        }
        Verb::Create(wanted) => {
            let policy = client.policy_create(&create(wanted)).await?;
            output::show(context.format, &policy, show)
        }
        Verb::Delete { policy } => {
            client.policy_delete(&policy).await?;
            output::note(context.format, &format!("policy {policy} deleted"));
            Ok(())
        }
    }
}

fn create(wanted: Wanted) -> PolicyCreate {
    PolicyCreate {
        name: wanted.name,
        rules: PolicyRules {
            ftt: wanted.ftt,
            ftm: match wanted.ftm {
                Method::Mirror => RulesMethod::Mirror,
                Method::ErasureCoding => RulesMethod::ErasureCoding,
            },
            data_strips: wanted.data_strips,
            stripe_width: wanted.stripe_width,
            reservation_percent: wanted.reservation,
            checksum: !wanted.no_checksum,
            force_provisioning: wanted.force_provisioning,
            iops_limit: wanted.iops_limit,
            bandwidth_limit_bytes_per_s: wanted.bandwidth_limit,
            confirmed_reads: wanted.confirmed_reads,
        },
    }
}

fn list(policies: &[Policy]) -> String {
    output::table(
        &["name", "rules", "disks"],
        policies.iter().map(|policy| vec![policy.name.clone(), policy.rules.describe(), policy.disks.to_string()]),
    )
}

fn show(policy: &Policy) -> String {
    let rules = &policy.rules;
    let yes_no = |value| if value { "yes" } else { "no" }.to_owned();
    output::pairs([
        ("policy", policy.name.clone()),
        ("built in", yes_no(policy.builtin)),
        ("failures to tolerate", rules.ftt.to_string()),
        (
            "method",
            match rules.ftm {
                RulesMethod::Mirror => "mirror".into(),
                RulesMethod::ErasureCoding => "erasure coding".into(),
            },
        ),
        (
            "strips of data",
            match (rules.ftm, rules.data_strips) {
                (RulesMethod::Mirror, _) => String::new(),
                (RulesMethod::ErasureCoding, 0) => "as many as the fault domains allow".into(),
                (RulesMethod::ErasureCoding, strips) => strips.to_string(),
            },
        ),
        ("stripe width", rules.stripe_width.to_string()),
        ("space reservation", format!("{} %", rules.reservation_percent)),
        ("checksum", yes_no(rules.checksum)),
        ("force provisioning", yes_no(rules.force_provisioning)),
        (
            "IOPS limit",
            match rules.iops_limit {
                0 => "none".into(),
                limit => limit.to_string(),
            },
        ),
        (
            "bandwidth limit",
            match rules.bandwidth_limit_bytes_per_s {
                0 => "none".into(),
                limit => format!("{}/s", cairn_types::format_bytes(limit)),
            },
        ),
        ("confirmed reads", yes_no(rules.confirmed_reads)),
        ("disks", policy.disks.to_string()),
    ])
}
