package apicall

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// DefaultBlocklist holds the addresses that services may not have unless the administrator sets another list: this machine and its
// link-local network, where clouds serve their metadata.
var DefaultBlocklist = []string{
	"127.0.0.0/8", "::1/128", "0.0.0.0/8", "::/128",
	"169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128",
	"224.0.0.0/4", "ff00::/8", "255.255.255.255/32",
	"localhost", "metadata.google.internal",
}

// list is a list of addresses and host names.
type list struct {
	ranges []netip.Prefix
	hosts  []string
}

// newList parses CIDRs, addresses and host names.
func newList(entries []string) (list, error) {
	var l list
	for _, e := range entries {
		e = strings.TrimSpace(e)
		switch {
		case e == "":
		case strings.Contains(e, "/"):
			p, err := netip.ParsePrefix(e)
			if err != nil {
				return list{}, fmt.Errorf("invalid HTTP flag configuration: %q is neither a range of addresses nor a host name", e)
			}
			l.ranges = append(l.ranges, p.Masked())
		default:
			if a, err := netip.ParseAddr(e); err == nil {
				a = plain(a)
				l.ranges = append(l.ranges, netip.PrefixFrom(a, a.BitLen()))
				continue
			}
			l.hosts = append(l.hosts, hostName(e))
		}
	}
	return l, nil
}

func (l list) hasHost(host string) bool {
	host = hostName(host)
	for _, h := range l.hosts {
		if h == host || strings.HasPrefix(h, "*.") && strings.HasSuffix(host, h[1:]) {
			return true
		}
	}
	return false
}

// covering returns the range that contains the address, or the IPv4 address embedded in it.
func (l list) covering(a netip.Addr) (netip.Prefix, bool) {
	a = plain(a)
	for _, p := range l.ranges {
		if p.Contains(a) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// hostName returns the form in which host names are compared: that of a connection, since HTTP clients convert letters such as ｖ to ASCII.
func hostName(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if ascii, err := idna.Lookup.ToASCII(s); err == nil {
			s = ascii
		}
	}
	return strings.ToLower(strings.TrimSuffix(s, "."))
}

// Prefixes of addresses with an embedded IPv4 address; some networks deliver packets for them to that IPv4 address.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
	compat = netip.MustParsePrefix("::/96")
)

// plain returns the IPv4 address embedded in an address, or the address itself.
func plain(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case nat64.Contains(a), compat.Contains(a) && (b[12] != 0 || b[13] != 0):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixTo4.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}
