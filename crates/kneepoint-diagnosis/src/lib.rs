//! kneepoint-diagnosis: see ARCHITECTURE.md.
