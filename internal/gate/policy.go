package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A policy is what the Unit lines say about one unit.
type policy struct {
	unit   string // as written
	line   int
	keys   []string // key=value, sorted
	exact  bool
	better float64 // +1 higher, -1 lower, 0 unknown
	gate   string  // "" judges nothing
	limit  float64 // of the gate
	slack  float64
}

func (p *policy) String() string { return strings.Join(p.keys, " ") }

// set takes one key; where it cannot, it says what it wants instead. A key the gate does not know is refused as well: a
// misspelt gate= would judge nothing, silently.
func (p *policy) set(key, value string) (want string) {
	kv := key + "=" + value
	switch {
	case kv == "assume=exact":
		p.exact = true
	case kv == "assume=nothing":
	case kv == "better=higher":
		p.better = 1
	case kv == "better=lower":
		p.better = -1
	case key == "gate":
		p.gate = value
		number, percent := strings.CutSuffix(value, "%")
		number, times := strings.CutSuffix(number, "x")
		var ok bool
		if p.limit, ok = amount(number); !ok || percent == times || times && p.limit < 1 {
			return "a percentage such as gate=5% or a factor such as gate=3x"
		}
	case key == "slack":
		var ok bool
		if p.slack, ok = amount(value); !ok {
			return "a number such as slack=128"
		}
	default:
		return "assume=exact or nothing, better=lower or higher, gate= or slack="
	}
	p.keys = append(p.keys, kv)
	slices.Sort(p.keys)
	return ""
}

// amount parses a plain decimal that is not negative.
func amount(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && strings.Trim(s, "0123456789.") == ""
}

// contradiction names what is wrong with the keys together.
func (p *policy) contradiction() string {
	switch {
	case p.exact && p.gate != "":
		return "either assume=exact or gate="
	case p.gate != "" && p.better == 0:
		return "gate= needs better=lower or better=higher"
	case p.gate == "" && slices.ContainsFunc(p.keys, func(kv string) bool { return strings.HasPrefix(kv, "slack=") }):
		return "slack= needs gate="
	}
	return ""
}

func (p *policy) judges() bool { return p.exact || p.gate != "" }

// judge says why a change fails, or nothing.
func (p *policy) judge(old, new float64) (why string) {
	worse := (old - new) * p.better
	switch {
	case old == new || !p.judges():
		return ""
	case p.exact && worse < 0:
		return "exact: an improvement is accepted by an update"
	case p.exact:
		return "exact"
	case old == 0:
		return "was zero, which has no percentage"
	case worse <= p.slack:
		return ""
	}
	times, isTimes := strings.CutSuffix(p.gate, "x")
	switch {
	case isTimes && p.better < 0 && new <= p.limit*old,
		isTimes && p.better > 0 && new*p.limit >= old,
		!isTimes && worse*100 <= p.limit*math.Abs(old):
		return ""
	case isTimes:
		why = "more than " + times + " times worse"
	default:
		why = "worse by more than " + p.gate
	}
	if p.slack > 0 {
		why += " and " + number(p.slack)
	}
	return why
}
