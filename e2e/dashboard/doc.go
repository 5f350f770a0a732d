// Package dashboard tests the page about the reports: who sees what, on a real API server, and what it shows, in a real
// Chromium. `make test-ui` runs it; where there is no Chromium the tests that need one are skipped, unless the variable
// EPHOR_UI is set.
//
// EPHOR_SCREENSHOT=FILE writes the pictures for docs/operating/dashboard.md (`make screenshot`): FILE, and FILE-decisions and FILE-impact beside it.
package dashboard
