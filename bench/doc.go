// Command bench measures the cost of Ephor on the current machine, relative to floors that are measured in the same run.
//
//	go run ./bench            # all rows, with targets: what `make bench` prints
//	go run ./bench floor      # one admission review against a no-op webhook
//	go run ./bench policies   # one review with many policies that do not match
//	go run ./bench library    # the classic policies of a public library on 1,000 Pods
//	go run ./bench suites     # `ephor test` on all tests of a public library
//	go run ./bench foreach    # a loop over 1,000 elements against a loop over one
//	go run ./bench charges    # the time of each function of the languages against its charge; add a text to select rows by name
//	go run ./bench reports    # the first scan of 5,000 Pods, on a control plane; some minutes
//	go run ./bench background # generate rules for 1,000 Namespaces, and objects that remain when Namespaces are deleted; some minutes
//	go run ./bench decisions  # the store of decisions in a file: time and space for each, a query among ten million; a quarter of an hour
//	go run ./bench recording  # the cost of recording decisions in the admission process, on a control plane; some minutes
//	go run ./bench compare    # what evaluates the same policies, with the peers whose programs are named (peers.go); half an hour
//
// Absolute times vary between machines and hours; quote the ratios. These are not tests: a MISS is printed and the exit code stays 0.
package main
