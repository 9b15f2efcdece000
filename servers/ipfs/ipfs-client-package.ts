import { StartError } from '../config/startup-error.js'

const CLIENT = 'ipfs-http-client@60'

/**
 * Looks for the one package that the servers leave to those who have an IPFS node, before anything imports it.
 *
 * @param resolve - throws where a package is not installed
 * @throws StartError with the command that installs it
 */
export function assertIpfsClientInstalled(resolve: (name: string) => unknown = resolveHere): void {
  try {
    resolve('ipfs-http-client')
  } catch (cause) {
    throw new StartError(`IPFS_API_URL needs the package ${CLIENT}: npm install ${CLIENT}`, { cause })
  }
}

function resolveHere(name: string): string {
  return import.meta.resolve(name)
}
