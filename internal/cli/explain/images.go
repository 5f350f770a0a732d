package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/cli/terminal"
	notes "ephor.invalid/ephor/internal/trace"
)

// unsigned describes, for each attestor without a valid signature, what was found instead and what would satisfy the attestor.
func (x *explanation) unsigned() {
	for i := range x.Notes.Attestors {
		a := &x.Notes.Attestors[i]
		if a.Holds {
			continue
		}
		x.Decided = append(x.Decided, a.Image+": "+foundFor(a))
		for _, f := range a.Found {
			if !f.Accepted && f.Reason != "" && len(a.Found) > 1 {
				x.Decided = append(x.Decided, fmt.Sprintf("%s %s: %s", f.Kind, f.Place, oneLineText(f.Reason)))
			}
		}
		switch {
		case a.Unknown:
			x.ToPass = append(x.ToPass, "try again when this can be determined: "+oneLineText(a.Error))
		case a.Type != "":
			x.ToPass = append(x.ToPass, fmt.Sprintf("attest %s of %s, signed by %s, with what the conditions ask for", a.Type, a.Image, a.Wants))
		default:
			x.ToPass = append(x.ToPass, fmt.Sprintf("use an image that is signed by %s, or have %s signed", a.Wants, a.Image))
		}
	}
}

// foundFor describes the signatures that exist, none of which satisfies the attestor.
func foundFor(a *notes.Attestor) string {
	thing, things := "signature", "signatures"
	if a.Type != "" {
		thing, things = "statement "+a.Type, "statements "+a.Type
	}
	wants := fmt.Sprintf("%s (%s)", cmp.Or(a.Path, "the attestor"), a.Wants)
	if len(a.Found) == 0 {
		out := "no " + things + " found for " + wants
		if a.Unknown {
			out = "it could not be determined whether there is a " + thing + " for " + wants
		}
		return withReason(out, a.Error)
	}
	var by []string
	accepted := false
	for _, f := range a.Found {
		accepted = accepted || f.Accepted
		if who := signer(&f); !slices.Contains(by, who) {
			by = append(by, who)
		}
	}
	list := strings.Join(by, ", ")
	if n := len(by); n > 1 {
		list = strings.Join(by[:n-1], ", ") + " and " + by[n-1]
	}
	out := fmt.Sprintf("%s found, by %s; ", terminal.Counted(len(a.Found), thing, things), list)
	switch {
	case accepted: // the right signer made it, but its content is not sufficient
		return withReason(out+"it is by "+wants+", and does not satisfy", a.Error)
	case a.Unknown:
		return withReason(out+"it could not be determined whether that satisfies "+wants, a.Error)
	case len(a.Found) == 1:
		return withReason(out+"it does not satisfy "+wants, a.Found[0].Reason)
	case len(a.Found) == 2:
		return out + "neither satisfies " + wants
	}
	return out + "none satisfies " + wants
}

func withReason(text, reason string) string {
	if reason == "" || strings.HasPrefix(text, reason) {
		return text
	}
	return text + ": " + oneLineText(reason)
}

// signer names the signer of a signature, or the signer that the signature claims.
func signer(f *notes.Signature) string {
	switch {
	case len(f.Subjects) > 0 && f.Issuer != "":
		return strings.Join(f.Subjects, ", ") + " of the issuer " + f.Issuer
	case len(f.Subjects) > 0:
		return strings.Join(f.Subjects, ", ")
	case f.Issuer != "":
		return "someone of the issuer " + f.Issuer
	case f.Key != "":
		return "the key " + f.Key
	}
	return "a key without a name"
}

// oneLineText returns a text on one line.
func oneLineText(s string) string { return strings.Join(strings.Fields(s), " ") }

// signatures prints the signatures that were found for each attestor.
func signatures(w io.Writer, list []notes.Attestor) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "  attestors")
	for i := range list {
		a := &list[i]
		what := ""
		if a.Type != "" {
			what = ", statement " + a.Type
		}
		fmt.Fprintf(w, "    %s %s %s: %s%s\n", mark(a.Holds), a.Image, cmp.Or(a.Path, "attestor"), a.Wants, what)
		for k := range a.Found {
			f := &a.Found[k]
			fmt.Fprintf(w, "      %s %s %s by %s%s\n", mark(f.Accepted), f.Kind, f.Place, signer(f), because(oneLineText(f.Reason)))
		}
		if len(a.Found) == 0 && a.Error != "" {
			fmt.Fprintf(w, "      %s\n", oneLineText(a.Error))
		}
	}
}
