//! kneepoint-telemetry: see ARCHITECTURE.md.
