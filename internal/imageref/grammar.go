package imageref

import "strings"

// The grammar of image references, as the distribution project defines it:
//
//	reference = domain "/" path [ ":" tag ] [ "@" digest ]
//
// Each part is read once, so that the time depends only on the length.

// parse reads a reference with a domain.
func parse(s string) (r Reference, ok bool) {
	name, digest, pinned := strings.Cut(s, "@")
	domain, path, ok := strings.Cut(name, "/")
	if !ok {
		return r, false
	}
	path, tag, tagged := strings.Cut(path, ":")
	if !isDomain(domain) || !isPath(path) || tagged && !isTag(tag) || pinned && !isDigest(digest) {
		return r, false
	}
	return Reference{Registry: domain, Path: path, Tag: tag, Digest: digest}, true
}

// isDomain reports whether s is a host name or an address in brackets, with or without a port.
func isDomain(s string) bool {
	host, port, ported := strings.Cut(s, ":")
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 2 || !consists(s[1:end], func(c byte) bool { return isHex(c) || c == ':' }) {
			return false
		}
		if host, port = "", s[end+1:]; port != "" {
			if port, ported = strings.CutPrefix(port, ":"); !ported {
				return false
			}
		} else {
			ported = false
		}
	} else {
		for label := range strings.SplitSeq(host, ".") {
			if !consists(label, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '-' }) || label[0] == '-' || label[len(label)-1] == '-' {
				return false
			}
		}
	}
	return !ported || consists(port, isDigit)
}

// isPath reports whether each part of a path consists of lower-case letters and digits, with single dots, one or two underscores, or any
// number of hyphens between them.
func isPath(s string) bool {
	word := false // the last character is a letter or a digit
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || isDigit(c):
			word = true
			continue
		case !word:
			return false
		case c == '_' && strings.HasPrefix(s[i:], "__"):
			i++
		case c == '-':
			for i+1 < len(s) && s[i+1] == '-' {
				i++
			}
		case c != '/' && c != '.' && c != '_':
			return false
		}
		word = false
	}
	return word
}

func isTag(s string) bool {
	return len(s) <= maxTag && consists(s, func(c byte) bool { return isWord(c) || c == '.' || c == '-' }) && isWord(s[0])
}

// isDigest reports whether s is the name of an algorithm and a number in hexadecimal digits.
func isDigest(s string) bool {
	algorithm, hex, ok := strings.Cut(s, ":")
	if !ok || len(algorithm) > maxAlgorithm || len(hex) < minHex || len(hex) > maxHex || !consists(hex, isHex) {
		return false
	}
	begin := true
	for i := range len(algorithm) {
		switch c := algorithm[i]; {
		case isLetter(c):
			begin = false
		case begin:
			return false
		case strings.IndexByte("-_+.", c) >= 0:
			begin = true
		case !isDigit(c):
			return false
		}
	}
	return !begin
}

// consists reports whether s has one or more characters, all of a class.
func consists(s string, class func(byte) bool) bool {
	for i := range len(s) {
		if !class(s[i]) {
			return false
		}
	}
	return s != ""
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func isWord(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }
