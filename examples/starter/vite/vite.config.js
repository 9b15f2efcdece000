import { defineConfig } from 'vite'

// The page on port 3000 and its API have one origin, in development and in production.
export default defineConfig({ server: { port: 3000, strictPort: true, proxy: { '/api': 'http://localhost:3010' } } })
