// A client by franz-go (kgo) that logs in and lists the topics it sees. Its one argument is a file of properties: the
// address, security.protocol, sasl.mechanism, username, password, token, and PEM files ca and certificate.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func properties(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found := map[string]string{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			found[name] = value
		}
	}
	return found, lines.Err()
}

func encryption(given map[string]string) (*tls.Config, error) {
	authority, err := os.ReadFile(given["ca"])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if path := given["certificate"]; path != "" {
		pair, err := tls.LoadX509KeyPair(path, path)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func mechanism(given map[string]string) sasl.Mechanism {
	user, password := given["username"], given["password"]
	switch given["sasl.mechanism"] {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: given["token"]}.AsMechanism()
}

func topics(given map[string]string) error {
	options := []kgo.Opt{kgo.SeedBrokers(given["address"]), kgo.RequestRetries(1)}
	if strings.HasSuffix(given["security.protocol"], "SSL") {
		config, err := encryption(given)
		if err != nil {
			return err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if given["sasl.mechanism"] != "" {
		options = append(options, kgo.SASL(mechanism(given)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, topic := range answer.Topics {
		fmt.Println("topic:", *topic.Topic)
	}
	return nil
}

func main() {
	given, err := properties(os.Args[1])
	if err == nil {
		err = topics(given)
	}
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
}
