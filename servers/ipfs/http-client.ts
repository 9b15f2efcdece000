// The build replaces this file by a bundle of the package: .config/bundle-ipfs-client.js.
export { create } from 'ipfs-http-client'
