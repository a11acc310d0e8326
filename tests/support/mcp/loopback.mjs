// Loaded before a server that would listen on every address of the machine: it listens on this one.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, Number(port), "127.0.0.1", ...rest);
};
