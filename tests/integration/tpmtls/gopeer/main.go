// Gopeer is the other side of a mutual TLS connection, in Go's crypto/tls, for tests.
//
//	gopeer server CERT KEY CA   prints its port, serves one connection, prints the client's key
//	gopeer client CERT KEY CA PORT   connects, says hello, prints the server's key and answer
//
// A key is printed as the SHA-256 of its SubjectPublicKeyInfo.
package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net"
	"os"
)

func main() {
	log.SetFlags(0)
	pair, err := tls.LoadX509KeyPair(os.Args[2], os.Args[3])
	check(err)
	authority, err := os.ReadFile(os.Args[4])
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ServerName:   "localhost",
	}
	if os.Args[1] == "server" {
		listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
		check(err)
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		connection, err := listener.Accept()
		check(err)
		talk(connection.(*tls.Conn), false)
		return
	}
	connection, err := tls.Dial("tcp", "127.0.0.1:"+os.Args[5], config)
	check(err)
	talk(connection, true)
}

// talk exchanges a line each way and prints whom it was exchanged with.
func talk(connection *tls.Conn, first bool) {
	defer connection.Close()
	if first {
		_, err := fmt.Fprintln(connection, "hello")
		check(err)
	}
	line, err := bufio.NewReader(connection).ReadString('\n')
	check(err)
	if !first {
		_, err = fmt.Fprintln(connection, "hello from go")
		check(err)
	}
	state := connection.ConnectionState()
	sum := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
	fmt.Printf("%x %s %s", sum, tls.VersionName(state.Version), line)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
