// Package schedule parses the cron schedules of cleanup policies, computes their times, and parses the values of the TTL label.
//
//	s, err := schedule.Parse("*/5 * * * *")
//	next := s.Next(lastExecution)
//
// Schedules have the five standard fields (minute, hour, day of month, month, day of week), in UTC unless they begin with
// CRON_TZ=…, or one of the names @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually. @every and seconds are
// rejected: they cannot be counted from a stored time.
//
//	s, err := schedule.ParseExtended("0 30 4 L * ? 2027") // of DeletingPolicies: with seconds, years, and the last days of months
//
//	at, err := schedule.EndOfLife("1d12h", creation) // the label cleanup.kyverno.io/ttl
//
// The extended dialect is that of gorhill/cronexpr. Its maintained form, hashicorp/cronexpr v1.1.3, fails four cases of our tests: it accepts
// "5-1 * * * *", for which it then searches 0.3 s of processor time, eight fields, and "?" for minutes, and does not know "@Hourly".
//
// It neither waits nor reads the clock.
//
// Floor 0 (leaf): imports nothing of ours.
package schedule
