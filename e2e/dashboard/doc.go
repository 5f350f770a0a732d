// Package dashboard tests the dashboard: its access control on a real API server, and its pages in a real Chromium. `make test-ui` runs it.
// Without Chromium the tests that need it are skipped, unless the variable EPHOR_UI is set.
//
// EPHOR_SCREENSHOT=FILE writes the pictures for docs/operating/dashboard.md (`make screenshot`): FILE, FILE-decisions and FILE-impact.
package dashboard
