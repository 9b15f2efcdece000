import { defineConfig } from 'vite'

export default defineConfig({
  // Vite bundles this package at its start. Otherwise the first login with a temporary key could reload the page.
  optimizeDeps: { include: ['ethers'] },
  // The page on port 3000 and its API have one origin, in development and in production.
  server: { port: 3000, strictPort: true, proxy: { '/api': 'http://localhost:3010' } }
})
