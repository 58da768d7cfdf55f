package logfile

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxFields bounds the named values of a record, and maxValue each of them.
const (
	maxFields = 128
	maxValue  = 256
)

// field is a named value beside a text: of a JSON object, a journal's record, a row of CSV, labels.
type field struct{ key, value string }

// fields are those of a record, outer ones last. Keys are in lower case; nested ones are joined by ".".
type fields struct{ all []field }

func (f *fields) add(key, value string) {
	key = lower(key[:min(len(key), maxValue)])
	if len(f.all) < maxFields || (len(f.all) < 8*maxFields && isVital(key)) {
		f.all = append(f.all, field{key, value[:min(len(value), maxValue)]})
	}
}

// isVital reports whether a key is one that says who wrote a record. A program may send a journal so many fields of its
// own that these would not fit.
func isVital(key string) bool {
	key = last(key)
	return strings.HasPrefix(key, "_") || key == "transport" || key == "pri" || slices.Contains(writerKeys, key) ||
		slices.Contains(facilityKeys, key)
}

// last returns the last part of a nested key, with the one before it for a mere "name".
func last(key string) string {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return key
	}
	if key[i+1:] == "name" || key[i+1:] == "code" {
		j := strings.LastIndexByte(key[:i], '.')
		return key[j+1:]
	}
	return key[i+1:]
}

// get returns the first value of one of the keys.
func (f *fields) get(keys ...string) string {
	for _, key := range keys {
		for _, v := range f.all {
			if v.value != "" && (v.key == key || last(v.key) == key) {
				return v.value
			}
		}
	}
	return ""
}

// Keys by what they say, as journald, rsyslog, syslog-ng, Fluentd, Vector, Elasticsearch, OpenTelemetry, Graylog and
// dmesg name them.
var (
	writerKeys = []string{"syslog_identifier", "identifier", "appname", "app_name", "app-name", "programname", "program",
		"process_name", "processname", "process", "process.name", "syslogtag", "syslog_tag", "syslog-tag", "ident", "_comm",
		"_exe", "comm",
		"syslog_appname", "syslog.appname", "application_name"}
	processKeys  = []string{"_pid", "_systemd_user_unit", "_cmdline", "_systemd_unit", "_container_name"}
	facilityKeys = []string{"syslog_facility", "facility", "fac", "facility_label", "facility_name", "facility.name",
		"facility.code", "syslog_facility_code", "syslog.facility", "facility-text", "syslogfacility",
		"syslogfacility-text"}
	hostKeys = []string{"_hostname", "hostname", "host.name", "host", "node", "node_name", "nodename", "computer",
		"instance", "kubernetes.host", "syslog_hostname", "machine", "server", "_machine_id"}
	textKeys = []string{"message", "msg", "log", "line", "text", "_raw", "raw", "event", "body", "content", "data",
		"textpayload", "short_message", "full_message", "@message", "rawmessage", "rawmsg", "original", "log_message",
		"stringvalue", "stdout", "stdout_lines", "values", "results", "result", "output", "lines", "entries", "logs",
		"syslogmessage", "payload", "record", "value", "fullmessage", "jsonpayload", "msg_raw", "rendered", "out"}
	originalKeys = []string{"message", "msg", "full_message", "original", "_raw", "raw", "rawmsg", "rawmessage"}
	quotingKeys  = []string{"cmdline", "_cmdline", "command", "cmd", "comm", "proctitle", "args", "argv", "query", "expr",
		"pattern", "filter", "regex", "regexp", "expression", "title", "description", "example", "comment", "reason", "name",
		"summary", "rule", "alert", "help", "hint"}
)

// writer says who wrote the record, by its fields alone.
func (f *fields) writer() writer {
	found := unknown
	note := func(w writer) {
		if w != unknown && found != program {
			found = w
		}
	}
	vm := false
	for _, v := range f.all {
		value := strings.TrimSuffix(strings.TrimSpace(v.value), ":")
		bare, _, _ := strings.Cut(value, "[")
		switch key := last(v.key); {
		case value == "" || value == "-":
		case key == "_transport" || key == "transport":
			note(named(value == "kernel"))
		case slices.Contains(writerKeys, key):
			note(named(isKernel(bare)))
			vm = vm || strings.HasPrefix(lower(bare), "vmk")
		case slices.Contains(processKeys, key) && strings.HasPrefix(key, "_"):
			note(program)
		}
	}
	if vm {
		return found
	}
	for _, v := range f.all {
		switch key := last(v.key); {
		case slices.Contains(facilityKeys, key):
			note(facilityWriter(strings.TrimSpace(v.value)))
		case key == "pri":
			if n, err := strconv.Atoi(v.value); err == nil {
				note(named(n < 8))
			}
		}
	}
	return found
}

// named turns whether it is the kernel into a writer.
func named(isKernel bool) writer {
	if isKernel {
		return kernel
	}
	return program
}

// facilityWriter reads a facility by name or number; others are no facility of a syslog.
func facilityWriter(v string) writer {
	if v == "kernel" || v == "kernel messages" {
		return kernel
	}
	if i := slices.Index(facilities, lower(v)); i >= 0 {
		return named(i == 0)
	}
	if n, err := strconv.Atoi(v); err == nil && n >= 0 && n < len(facilities) {
		return named(n == 0)
	}
	return unknown
}

// host returns the machine of the record.
func (f *fields) host() string { return f.get(hostKeys...) }

// at returns the time of the record.
func (f *fields) at() stamp {
	if us := f.get("__realtime_timestamp", "_source_realtime_timestamp"); us != "" {
		if n, err := strconv.ParseInt(us, 10, 64); err == nil && n > 0 && n < 1<<53 {
			return stamp{UTC, time.Duration(n) * time.Microsecond}
		}
	}
	for _, key := range [...]string{"@timestamp", "timestamp", "time", "ts", "_time", "datetime", "timereported",
		"timeunixnano", "date", "receivetimestamp"} {
		v := strings.TrimSpace(f.get(key))
		if v == "" {
			continue
		}
		if n, at := timeAt(v); n > 0 && at.at != 0 {
			return at
		}
		if at, ok := kernelTime(v); ok && key == "time" { // dmesg -J
			return at
		}
	}
	if us := f.get("__monotonic_timestamp", "_source_monotonic_timestamp"); us != "" && len(us) < 16 {
		if at, ok := kernelTime(micro(us)); ok {
			return at
		}
	}
	return stamp{}
}

// quotes reports whether a text with the driver's words under that key is only about them: the record has a message
// of its own beside it, or the key is one of commands and rules.
func (f *fields) quotes(key string) (quotes, logger bool) {
	key = last(lower(key))
	if slices.Contains(quotingKeys, key) || f.get("caller", "logger", "logger_name") != "" {
		return true, false
	}
	if slices.Contains(originalKeys, key) {
		return false, false
	}
	for _, v := range f.all {
		if v.key == "message" || v.key == "msg" {
			return true, f.get("level", "severity", "lvl", "loglevel") != ""
		}
	}
	return false, false
}

// unquote parses a quoted string or a word at the begin of s. n is its length, 0 without one.
func unquote(s string) (value string, n int) {
	if s == "" {
		return "", 0
	}
	if s[0] != '"' {
		i := strings.IndexAny(s, " \t,}")
		if i < 0 {
			i = len(s)
		}
		return s[:i], i
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			value, err := strconv.Unquote(s[:i+1])
			if err != nil {
				value = s[1:i]
			}
			return value, i + 1
		}
	}
	return "", 0
}
