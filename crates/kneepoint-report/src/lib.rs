//! kneepoint-report: see ARCHITECTURE.md.
