//! The program is compiled for certain processor features; on a machine without them it would end
//! with an illegal instruction somewhere. This says so at once.

use crate::error::CommandError;

/// What is missing, worded for a person; `None` when nothing is.
#[cfg(target_arch = "x86_64")]
pub(crate) fn complaint() -> Option<CommandError> {
    let cpu = raw_cpuid::CpuId::new();
    let basic = cpu.get_feature_info();
    let extended = cpu.get_extended_feature_info();
    let (basic, extended) = (basic.as_ref(), extended.as_ref());
    let wanted = |compiled_in, there: Option<bool>| compiled_in && there != Some(true);
    let missing: Vec<_> = [
        (
            "AVX",
            wanted(
                cfg!(target_feature = "avx"),
                basic.map(raw_cpuid::FeatureInfo::has_avx),
            ),
        ),
        (
            "FMA",
            wanted(
                cfg!(target_feature = "fma"),
                basic.map(raw_cpuid::FeatureInfo::has_fma),
            ),
        ),
        (
            "F16C",
            wanted(
                cfg!(target_feature = "f16c"),
                basic.map(raw_cpuid::FeatureInfo::has_f16c),
            ),
        ),
        (
            "AVX2",
            wanted(
                cfg!(target_feature = "avx2"),
                extended.map(raw_cpuid::ExtendedFeatures::has_avx2),
            ),
        ),
        (
            "BMI2",
            wanted(
                cfg!(target_feature = "bmi2"),
                extended.map(raw_cpuid::ExtendedFeatures::has_bmi2),
            ),
        ),
    ]
    .into_iter()
    .filter_map(|(name, missing)| missing.then_some(name))
    .collect();
    if missing.is_empty() {
        return None;
    }
    let error = format!(
        "this build needs processor features that this machine lacks: {}",
        missing.join(", ")
    );
    Some(
        CommandError::failed(error)
            .hint("build it without the `target-cpu` line in `.cargo/config.toml`"),
    )
}

/// Nothing is compiled in beyond the baseline here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn complaint() -> Option<CommandError> {
    None
}
