// Package ring shares work between the replicas of a controller: one replica at a time holds a key.
//
//	r, err := ring.New(ring.Options{Client: client, Namespace: "kyverno", Controller: "background-controller", Identity: pod, Log: log})
//	go r.Run(ctx)
//	if ctx, release, ok := r.Hold(ctx, key); ok { // no other member works on the key now
//		defer release()
//		work(ctx) // cancelled when the authority ends
//	}
//
// Every member has a Lease ⟨controller⟩-⟨pod⟩, which it renews every 2 seconds (Renew) after it has listed the Leases of the others. A
// member counts as gone when the others have not seen a renewal of its Lease for 12 seconds (Valid). A member that could not list and renew
// begins no new work after 8 seconds (Start), and cancels work in progress after 10 (Cancel). Clocks of different machines are never
// compared: each member measures on its own monotonic clock. It counts its own proofs from before the requests that prove it alive, and
// those of other members from after it has seen them. Rendezvous hashing decides which member holds a key, so that a change moves no more
// keys than necessary. A member begins work on a key that it gained only 14 seconds (Settle) after the last change of the ring. By then the
// previous holder has also seen the change, or has cancelled its work because it could not list.
//
// There is one shortcut: a member that starts and finds no Lease but its own, which it has just created, holds everything at once. A member
// removes its Lease only when it has no work in progress, and Leases of crashed members are removed long after they expired (staleAfter),
// so without other Leases a member need not wait. The same holds for a member that was alone before it could not renew, and finds no Lease
// but its own afterwards: it gains no key from another member.
//
// If another client takes or deletes a Lease, the authority of its member ends at once. The member takes it again, as a change of the ring.
//
// The API server has no fencing tokens, and a process may be stopped between any two instructions: the ring makes it unlikely that two
// members work on a key at the same time, but cannot rule it out. So work under the ring makes every write harmless if it is late or
// repeated: it creates under names that are derived from the key, and updates and deletes with the UID and the resource version of the read
// on which the decision was based. Guard rejects requests after the end of the authority. A machine whose monotonic clock stops together
// with it (a suspended virtual machine) notices nothing; there only the writes themselves protect.
//
// The package does not elect a leader: work that must have a single owner stays under the Lease with Kyverno's name. It keeps no list of
// keys; workers check their own lists again when Changed reports that they may hold more.
//
// Floor 4: imports nothing of ours.
package ring
