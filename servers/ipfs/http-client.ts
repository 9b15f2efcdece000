// The build (.config/bundle-ipfs-client.js) replaces this file by a bundle of the package.
export { create } from 'ipfs-http-client'
