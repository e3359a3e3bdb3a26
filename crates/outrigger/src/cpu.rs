//! The program is compiled for certain processor features; on a machine without them it would end
//! with an illegal instruction somewhere. This says so at once.

use crate::error::CommandError;

/// What is missing, worded for a person; `None` when nothing is.
#[cfg(target_arch = "x86_64")]
pub(crate) fn complaint() -> Option<CommandError> {
    let cpu = raw_cpuid::CpuId::new();
    let basic = cpu.get_feature_info();
    let extended = cpu.get_extended_feature_info();
    let features = [
        ("AVX", cfg!(target_feature = "avx"), basic.as_ref().is_some_and(|info| info.has_avx())),
        ("FMA", cfg!(target_feature = "fma"), basic.as_ref().is_some_and(|info| info.has_fma())),
        ("F16C", cfg!(target_feature = "f16c"), basic.as_ref().is_some_and(|info| info.has_f16c())),
        ("AVX2", cfg!(target_feature = "avx2"), extended.as_ref().is_some_and(|info| info.has_avx2())),
        ("BMI2", cfg!(target_feature = "bmi2"), extended.as_ref().is_some_and(|info| info.has_bmi2())),
    ];
    let missing: Vec<_> = features.iter().filter(|(_, wanted, there)| *wanted && !there).map(|(name, ..)| *name).collect();
    if missing.is_empty() {
        return None;
    }
    let error = format!("this build needs processor features that this machine lacks: {}", missing.join(", "));
    Some(CommandError::failed(error).hint("build it without the `target-cpu` line in `.cargo/config.toml`"))
}

/// Nothing is compiled in beyond the baseline here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn complaint() -> Option<CommandError> {
    None
}
