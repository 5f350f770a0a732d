// Package ring shares work between the replicas of a controller: each key is held by one of them at a time.
//
//	r, err := ring.New(ring.Options{Client: client, Namespace: "kyverno", Controller: "background-controller", Identity: pod, Log: log})
//	go r.Run(ctx)
//	if ctx, release, ok := r.Hold(ctx, key); ok { // no other member works on the key now
//		defer release()
//		work(ctx) // cancelled when the authority ends
//	}
//
// Every member has a Lease ⟨controller⟩-⟨pod⟩, which it renews every 2 seconds (Renew) after it has listed those of the others.
// A member counts as gone when the others have not seen its Lease renewed for 12 seconds (Valid). A member that could not list and renew
// starts nothing new after 8 seconds (Start), and cancels what is in flight after 10 (Cancel). Clocks of different machines are
// never compared: each member measures on its own monotonic clock, from before it asked for what proves it alive, and from after it
// saw what proves another one alive. Which of the members holds a key is decided by rendezvous hashing, so that a
// change moves no more keys than it must. A key that a member gains is worked for only 14 seconds (Settle) after the last change of the
// ring. By then the previous holder has seen the change too, or has cancelled what it did, because it could not look.
//
// There is one shortcut: a member that starts and finds no Lease but its own, which it has just made, holds everything at once. A
// member removes its Lease only when nothing of it is in flight, and Leases of the dead are removed long after they ran out
// (staleAfter): without other Leases a member need not wait. The same holds for a member that was alone before it could not
// renew, and finds no Lease but its own afterwards: no key is gained from another member.
//
// A Lease that another client takes or deletes ends the authority of its member at once. The member takes it again, as a change of the ring.
//
// The API server knows no fencing tokens, and a process may be stopped between any two instructions: the ring makes it
// unlikely that two members work for a key at once, and cannot rule it out. So work under the ring makes every write
// harmless when it is late or repeated: creates under names that follow from the key, updates and deletes with the UID and the resource
// version of the read that decided them. Guard refuses to send what comes after the end of the authority. A machine
// whose monotonic clock stands still with it (a suspended virtual machine) notices nothing; there only the writes themselves protect.
//
// The package does not elect a leader: what must be single stays under the Lease with Kyverno's name. It keeps no list of keys;
// who works looks through its own again when Changed says that it may hold more.
//
// Floor 4: imports nothing of ours.
package ring
