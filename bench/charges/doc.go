// Package charges is the table of what each function, operator, macro and matcher of the two languages is charged, and measures whether that
// covers the time.
//
//	t := charges.Measure(time.Second)   // one line for each row
//	n, err := row.Charged(1000)         // the charge in steps, without a measurement
//
// A row has the worst arguments that we know, in three sizes. The time of a call is the processor time of its thread, compared with a
// reference loop in the same run: a ratio of 4 means that the call takes four times as long as a plain loop with the same charge. The tests only count: every function has a row, and the charges are those of testdata/charges.tsv.
package charges
