package compilecost

import (
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// What searching with a regular expression takes at most, in steps of package budget (see `go run ./bench charges`). The engine compares
// each instruction of the program with each byte of the text, whatever the expression.
const (
	visitsPerStep  = 3  // comparisons
	groupsPerVisit = 16 // groups whose positions are copied with a comparison
	searchSteps    = 32 // to begin a search, and to note a match
	clearedPerStep = 4096
	maxCleared     = 256 << 10 // bits that the engine clears before a search
	maxSteps       = 1 << 40   // larger counts are counted as this

	// cheap is the number of steps up to which all searches are charged as if each of them read the whole text.
	cheap = 8_000
)

// Search returns the steps of one search in n bytes of text. groups: the positions of groups are wanted.
func (r *Regular) Search(n int, groups bool) int64 {
	return searchSteps + times(int64(n)+1, r.perByte(groups))
}

// perByte returns the steps for each byte that is read.
func (r *Regular) perByte(groups bool) int64 {
	visits := int64(r.Program)
	if groups {
		visits = times(visits, 1+int64(r.Groups)/groupsPerVisit)
	}
	return 1 + visits/visitsPerStep
}

// FindAll charges for finding the first limit matches, or all if limit is negative, before the caller finds them, and returns an upper bound
// of their number. An error is that of charge.
//
// Each search may read far beyond its match, so that all searches together may read the text many times. Where that would be expensive,
// FindAll searches once itself, charges for what is read, and stops if charge returns an error.
func (r *Regular) FindAll(re *regexp.Regexp, text string, limit int, groups bool, charge func(steps int64) error) (int, error) {
	most := len(text) + 1
	if r.once {
		most = 1
	}
	if limit >= 0 {
		most = min(most, limit)
	}
	each := int64(r.Groups) + times(int64(len(text))+1, int64(r.Program), maxCleared)/clearedPerStep
	all := times(int64(most), r.Search(len(text), groups)+each)
	if all <= cheap || most <= 1 {
		return most, charge(all)
	}
	rest := re // for the searches after the first
	if r.behind {
		if err := charge(r.Steps()); err != nil {
			return 0, err
		}
		var err error
		if rest, err = regexp.Compile(`(?s:.)(?:` + re.String() + `)`); err != nil { // with the character before a match
			return most, charge(all)
		}
	}
	s := &scanner{text: text, perByte: r.perByte(groups), charge: charge}
	found, end := 0, -1
	for at := 0; found < most && at <= len(text); {
		if s.at, s.pending = at, s.pending+searchSteps+each; s.failed != nil {
			break
		}
		by, behind := re, 0
		if at > 0 {
			by = rest
			if r.behind {
				_, behind = utf8.DecodeLastRuneInString(text[:at])
			}
		}
		s.at -= behind
		match := by.FindReaderIndex(s)
		if match == nil || s.failed != nil {
			break
		}
		from, to := at-behind+match[0], at-behind+match[1]
		if behind > 0 {
			_, width := utf8.DecodeRuneInString(text[from:])
			from += width
		}
		if to > at {
			at = to
		} else {
			_, width := utf8.DecodeRuneInString(text[at:])
			at += max(width, 1)
		}
		if from != to || from != end { // an empty match right after a match does not count
			found++
		}
		end = to
	}
	s.pay()
	return found, s.failed
}

// scanner reads a text and charges for it.
type scanner struct {
	text             string
	at               int
	perByte, pending int64
	charge           func(int64) error
	failed           error
}

// chargeEvery is the number of steps after which a scanner charges.
const chargeEvery = 1000

// ReadRune implements io.RuneReader. It ends the text when charge returns an error.
func (s *scanner) ReadRune() (rune, int, error) {
	if s.at >= len(s.text) || s.failed != nil {
		return 0, 0, io.EOF
	}
	r, width := utf8.DecodeRuneInString(s.text[s.at:])
	s.at += width
	if s.pending += int64(width) * s.perByte; s.pending >= chargeEvery {
		s.pay()
	}
	return r, width, nil
}

func (s *scanner) pay() {
	if s.failed == nil {
		s.failed = s.charge(s.pending)
		s.pending = 0
	}
}

// anchored reports whether an expression matches only at the beginning of a text.
func anchored(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginText:
		return true
	case syntax.OpCapture, syntax.OpPlus, syntax.OpConcat:
		return len(re.Sub) > 0 && anchored(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if !anchored(sub) {
				return false
			}
		}
		return true
	}
	return false
}

// looksBehind reports whether an expression examines the text before a match.
func looksBehind(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginText, syntax.OpBeginLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, sub := range re.Sub {
		if looksBehind(sub) {
			return true
		}
	}
	return false
}

// times multiplies, up to a limit.
func times(a, b int64, limit ...int64) int64 {
	most := int64(maxSteps)
	if len(limit) > 0 {
		most = limit[0]
	}
	if a > 0 && b > most/a {
		return most
	}
	return a * b
}
